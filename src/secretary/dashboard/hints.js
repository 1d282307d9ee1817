// What the JSON Schemas say of their fields, in German. Whatever is not here stays as the schema says it.

import { language } from "./words.js";

const GERMAN = {
  "Use earlier work on the same file": "Frühere Arbeit an derselben Datei verwenden",
  "Do it again although it is known": "Noch einmal tun, obwohl es bekannt ist",
  "What is spoken, like `en`; detected if it is not said": "Was gesprochen wird, etwa `en`; sonst wird es erkannt",
  "The transcript is translated into this language": "Das Transkript wird in diese Sprache übersetzt",
  "Values for the template": "Werte für die Vorlage, als JSON",
  "Where subtitles are, as SubRip or WebVTT": "Wo Untertitel sind, als SubRip oder WebVTT",
  "Subtitles that exist are taken instead of listening": "Vorhandene Untertitel werden genommen, statt zuzuhören",
  "Subtitles of the video: nobody need listen": "Untertitel des Videos: Dann muss niemand zuhören",
  "The picture, upright, as a JPEG": "Das Bild, aufrecht, als JPEG",
  "The pictures in the document": "Die Bilder im Dokument",
  "A picture of each page": "Ein Bild jeder Seite",
  "By LibreOffice, page by page as printed": "Mit LibreOffice, Seite für Seite wie gedruckt",
  "How long it should take": "Wie lange es dauern soll",
  "How often it reports progress": "Wie oft es Fortschritt meldet",
  "The title of the talk": "Der Titel des Vortrags",
  "Of the document": "Des Dokuments",
  "The slides": "Die Folien",
  "A summary of the text": "Eine Zusammenfassung des Textes",
  "How long a summary is": "Wie lang eine Zusammenfassung ist",
  "What to do with the text, or how": "Was mit dem Text geschehen soll, oder wie",
  "Markdown, if nothing is said": "Markdown, wenn nichts gesagt ist",
  "Instead of a file": "Statt einer Datei",
  "What is said": "Was gesagt wird",
  "The slides, as pictures": "Die Folien als Bilder",
  "The text of each slide, by OCR": "Der Text jeder Folie, mit OCR",
};

export const hintOf = (text) => (language() === "de" ? GERMAN[text] ?? text : text);
