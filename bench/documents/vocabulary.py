"""Words of the made documents. They mean little, but they are real words in real forms."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Vocabulary:
    subjects: tuple[str, ...]
    verbs: tuple[str, ...]
    objects: tuple[str, ...]
    places: tuple[str, ...]
    openings: tuple[str, ...]
    joints: tuple[str, ...]
    adjectives: tuple[str, ...]
    topics: tuple[str, ...]
    goods: tuple[str, ...]
    names: tuple[str, ...]
    towns: tuple[str, ...]
    months: tuple[str, ...]
    words: "Labels"


@dataclass(frozen=True)
class Labels:
    """What stands above columns and beside sums."""

    item: str
    text: str
    quantity: str
    price: str
    total: str
    sum: str
    tax: str
    invoice: str
    date: str
    customer: str
    place: str
    year: str
    note: str
    table: str
    person: str
    page: str
    list: str
    listing: str


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split("|"))


ENGLISH = Vocabulary(
    subjects=_listed(
        "the survey|our committee|a second laboratory|the northern harbour|every gardener"
        "|the old mill|the water board|this instrument|the accountant|a careful reader"
        "|the municipal archive|the railway office|an early draft|the apprentice"
        "|the field station|her colleague|the printing house|a local cooperative"
        "|the weather bureau|the signal engineer|the first expedition|their supplier|the quarry"
        "|a retired surveyor|the harbour master|the experimental orchard|the choir"
        "|an independent auditor|the lighthouse|the workshop"
    ),
    verbs=_listed(
        "records|describes|replaces|confirms|delivers|inspects|compares|repairs|publishes"
        "|rejects|finances|measures|improves|collects|transports|stores|questions|simplifies"
        "|observes|sells|restores|examines|calibrates|distributes|documents|postpones|defends"
        "|reorganises|borrows"
    ),
    objects=_listed(
        "the annual figures|seven copper kettles|a revised timetable|the drainage plan"
        "|unfinished manuscripts|the official standard|two wooden bridges|several flood marks"
        "|the office inventory|a shipment of fine paper|the tidal observations"
        "|all affected contracts|the flight of stairs|spare parts for the turbine"
        "|sufficient evidence|a different method|the coffee harvest|thirty-four soil samples"
        "|the effect of frost|a map of the valley|the fireproof cabinet|its financial reserves"
        "|the original lenses|long-term agreements|the waffle irons|an unusual specimen"
        "|the final specification|the ferry tickets|a handful of seeds|the staff rota"
    ),
    places=_listed(
        "near the eastern gate|before the winter|under difficult conditions"
        "|without further delay|at the request of the council|for almost a decade"
        "|with remarkable patience|in the reading room|between March and October"
        "|on behalf of the owners|along the shoreline|after the second inspection"
        "|according to the minutes|at a cost of $4,200|in roughly 12% of all cases"
        "|by candlelight|despite the late invoice|for the benefit of visitors|at half past nine"
        "|within three weeks|from the upper terrace|with a margin of 0.5 mm|as agreed in § 14"
        "|during the night shift"
    ),
    openings=_listed(
        "However,|In practice,|By contrast,|As a rule,|At the same time,|For this reason,"
        "|In other words,|Surprisingly,|On the whole,|Later on,|Strictly speaking,|So far,"
        "|Meanwhile,|Above all,"
    ),
    joints=_listed(
        ", while|, because|, although|; in addition,|, and|, whereas|, so that|, after which|, but"
    ),
    adjectives=_listed(
        "careful|regional|seasonal|technical|preliminary|annual|comparative|practical|efficient"
        "|official|historical|simplified|financial|coastal|municipal|experimental|long-term"
        "|revised|open|quiet"
    ),
    topics=_listed(
        "drainage|timetables|orchard management|soil samples|harbour maintenance"
        "|paper manufacture|tidal records|bridge inspection|archive storage|weather reports"
        "|ferry traffic|staff training|signal design|kiln operation|seed distribution"
        "|flood protection|lens grinding|water quality|road surfaces|cable testing"
        "|coffee roasting|visitor numbers|fire safety|contract renewal"
    ),
    goods=_listed(
        "copper kettle|oak shelf|filing cabinet|brass hinge|garden hose|linen thread"
        "|signal lamp|rope, 20 m|paper, A4|waffle iron|desk lamp|ink, black|drill bit 8 mm"
        "|wire brush|felt mat|field notebook|glass funnel|tin box|rubber seal|steel bracket"
        "|work gloves|tool chest|water filter|surface coating"
    ),
    names=_listed(
        "A. Whitfield|M. Okafor|J. Lindqvist|R. Carmichael|P. Sørensen|T. Hargreaves|E. Novák"
        "|S. Delacroix|L. Brightman|C. O'Malley|H. Fairweather|D. Ferreira|N. Ashdown|K. Yilmaz"
        "|B. Offord|V. Petrova"
    ),
    towns=_listed(
        "Ashcombe|Fairhaven|Millbrook|Northgate|Easterly|Whitcliff|Oldbridge|Sandwell|Fleetmoor"
        "|Harrowby|Lower Tilling|Greenoak|Stonefield|Port Ellery"
    ),
    months=_listed(
        "January|February|March|April|May|June|July|August|September|October|November|December"
    ),
    words=Labels(
        item="Item",
        text="Description",
        quantity="Qty",
        price="Unit price",
        total="Amount",
        sum="Total",
        tax="VAT",
        invoice="Invoice",
        date="Date",
        customer="Customer",
        place="Location",
        year="Year",
        note="Remarks",
        table="Table",
        person="Responsible",
        page="Page",
        list="Checklist",
        listing="Listing",
    ),
)

GERMAN = Vocabulary(
    subjects=_listed(
        "die Erhebung|unser Ausschuss|ein zweites Labor|der nördliche Hafen|jede Gärtnerin"
        "|die alte Mühle|der Wasserverband|dieses Messgerät|die Buchhalterin"
        "|eine aufmerksame Leserin|das Stadtarchiv|das Eisenbahnamt|ein früher Entwurf"
        "|der Lehrling|die Außenstelle|seine Kollegin|die Druckerei"
        "|eine örtliche Genossenschaft|der Wetterdienst|die Stellwerksmeisterin"
        "|die erste Expedition|ihr Lieferant|der Steinbruch|ein pensionierter Landvermesser"
        "|die Hafenbehörde|der Versuchsgarten|der Kirchenchor|eine unabhängige Prüferin"
        "|der Leuchtturm|die Werkstatt"
    ),
    verbs=_listed(
        "erfasst|beschreibt|ersetzt|bestätigt|liefert|prüft|vergleicht|repariert|veröffentlicht"
        "|verwirft|finanziert|vermisst|verbessert|sammelt|befördert|lagert|hinterfragt"
        "|vereinfacht|beobachtet|verkauft|restauriert|untersucht|eicht|verteilt|dokumentiert"
        "|verschiebt|verteidigt|entleiht"
    ),
    objects=_listed(
        "die Jahreszahlen|sieben Kupferkessel|einen überarbeiteten Fahrplan"
        "|den Entwässerungsplan|unvollendete Handschriften|die geltende Norm"
        "|zwei hölzerne Brücken|mehrere Hochwassermarken|das Büroinventar"
        "|eine Lieferung Büttenpapier|die Gezeitenbeobachtungen|sämtliche Verträge"
        "|das Treppengeländer|Ersatzteile für die Turbine|ausreichende Nachweise"
        "|ein anderes Verfahren|die Kaffeeernte|vierunddreißig Bodenproben"
        "|die Wirkung des Frostes|eine Karte des Tals|den feuerfesten Schrank"
        "|die finanziellen Rücklagen|die ursprünglichen Linsen|Rahmenverträge|die Waffeleisen"
        "|ein ungewöhnliches Fundstück|das endgültige Pflichtenheft|die Fährkarten"
        "|eine Handvoll Saatgut|den Dienstplan"
    ),
    places=_listed(
        "nahe dem Osttor|vor Einbruch des Winters|unter schwierigen Bedingungen"
        "|ohne weiteren Verzug|auf Wunsch des Gemeinderats|seit fast zehn Jahren"
        "|mit bemerkenswerter Geduld|im Lesesaal|zwischen März und Oktober"
        "|im Auftrag der Eigentümer|entlang des Ufers|nach der zweiten Begehung"
        "|laut Sitzungsprotokoll|zum Preis von 4.200 €|in rund 12 % aller Fälle|bei Kerzenlicht"
        "|trotz verspäteter Rechnung|zugunsten der Besucherinnen und Besucher|gegen halb zehn"
        "|binnen drei Wochen|von der oberen Terrasse aus|mit einer Abweichung von 0,5 mm"
        "|gemäß § 14|während der Nachtschicht"
    ),
    openings=_listed(
        "Allerdings|In der Praxis|Im Gegensatz dazu|In der Regel|Gleichzeitig|Aus diesem Grund"
        "|Überraschenderweise|Im Großen und Ganzen|Später|Streng genommen|Bisher|Unterdessen"
        "|Vor allem"
    ),
    joints=_listed(", und|; außerdem|, aber|, denn|, jedoch|, sondern|; dennoch"),
    adjectives=_listed(
        "Sorgfältige|Regionale|Saisonale|Technische|Vorläufige|Jährliche|Vergleichende"
        "|Praktische|Effiziente|Amtliche|Geschichtliche|Vereinfachte|Finanzielle|Städtische"
        "|Langfristige|Überarbeitete"
    ),
    topics=_listed(
        "Entwässerung|Fahrplangestaltung|Obstgartenpflege|Bodenuntersuchung|Hafeninstandhaltung"
        "|Papierherstellung|Gezeitenaufzeichnung|Brückenprüfung|Archivlagerung"
        "|Wetterberichterstattung|Fährverbindung|Mitarbeiterschulung|Stellwerkstechnik"
        "|Ofenführung|Saatgutverteilung|Hochwasserschutzplanung|Linsenfertigung|Wasserqualität"
        "|Fahrbahnoberfläche|Kabelprüfung|Kaffeeröstung|Besucherzählung|Feuerwehrausstattung"
        "|Vertragsverlängerung"
    ),
    goods=_listed(
        "Kupferkessel|Eichenregal|Aktenschrank|Messingscharnier|Gartenschlauch|Leinengarn"
        "|Signallampe|Seil, 20 m|Papier, A4|Waffeleisen|Schreibtischleuchte|Tinte, schwarz"
        "|Bohrer 8 mm|Drahtbürste|Filzmatte|Feldbuch|Glastrichter|Blechdose|Gummidichtung"
        "|Stahlwinkel|Arbeitshandschuhe|Werkzeugkiste|Wasserfilter|Oberflächenlack"
    ),
    names=_listed(
        "A. Weißfeld|M. Österreicher|J. Lindner|R. Krämer|P. Søndergaard|T. Hoffmann"
        "|E. Nováková|S. Größl|L. Brückner|C. Schäfer|H. Schönwetter|D. Fröhlich|N. Aschenbach"
        "|K. Yildirim|B. Öztürk|V. Jäger"
    ),
    towns=_listed(
        "Aschheim|Schönhafen|Mühlbach|Nordertor|Osterfeld|Weißkliff|Altbrück|Sandweiler"
        "|Fließmoor|Härtingen|Unterzell|Grüneich|Steinfeld|Großenhafen"
    ),
    months=_listed(
        "Januar|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember"
    ),
    words=Labels(
        item="Pos.",
        text="Bezeichnung",
        quantity="Menge",
        price="Einzelpreis",
        total="Betrag",
        sum="Gesamtsumme",
        tax="MwSt.",
        invoice="Rechnung",
        date="Datum",
        customer="Kunde",
        place="Standort",
        year="Jahr",
        note="Bemerkungen",
        table="Tabelle",
        person="Zuständig",
        page="Seite",
        list="Prüfliste",
        listing="Auszug",
    ),
)

VOCABULARIES = {"en": ENGLISH, "de": GERMAN}
