"""Manuals that Debian ships both as PDF and as web pages, by other people and other programs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from .packages import Package, Unavailable, unpacked
from .prose import Language


@dataclass(frozen=True)
class Manual:
    name: str
    #: The program that set the PDF.
    producer: str
    package: Package
    pdf: str
    #: In the order of the text; `*` stands for names in their order.
    pages: tuple[str, ...]
    language: Language = "en"
    #: Where the web pages are in a package of their own.
    pages_package: Package | None = None


EDU = Package(
    "d/debian-edu-doc/debian-edu-doc-de_2.12.23~deb12u1_all.deb",
    "8bf494be7b24baf3b84cf080421357a01938e0f643971d6fb58834612882f2bc",
)
DEVELOPERS = Package(
    "d/developers-reference/developers-reference-de_12.18_all.deb",
    "281f0c2b24139e0ac83117c3e95b60458a6644fe14c82cf9ea78e87ea8c175d7",
)
INSTALLATION = Package(
    "i/installation-guide/installation-guide-amd64_20230508+deb12u1_all.deb",
    "812c43e1dc906daf671e3efe953dc023205c238e5bd5a3021ce4ca142793573a",
)
REFERENCE = Package(
    "d/debian-reference/debian-reference-de_2.100_all.deb",
    "3b0ce65fd63e75ddf8eb07ca36293425135080e690a07e06a6ac8bc8040ef0aa",
)
TEXLIVE = Package(
    "t/texlive-lang/texlive-lang-german_2022.20230122-1_all.deb",
    "52b567e7485f66f39deb0fc0a1a8a7006f121b6c2cf2a751bd5475969e20cf1d",
)
POLICY = Package(
    "d/debian-policy/debian-policy_4.6.2.0_all.deb",
    "ef9d01b625c3b87c3a845c2cd1b66f1a16e9240b2b9e5bee53472a00e8457a39",
)
XORG = Package(
    "x/xorg-docs/xorg-docs_1.7.1-1.2_all.deb",
    "4842f9de2722d4a1998d8c8b1d14ef475fbc5e16db7d0954b4c0f5f72bd67440",
)
DOCBOOK = Package(
    "d/docbook5-xml/docbook5-xml_5.0-3_all.deb",
    "2e54c203a9734241194d8967a7fe3418ea3efca034b7e2eadd8fdaff0d2fb11f",
)
NORM = Package(
    "n/norm/libnorm-doc_1.5.9+dfsg-2_all.deb",
    "46d2601078fd3e66ce05f1410338ed54810e1c5f19099dfe7f8a9d9dfb404c06",
)
DRBD = Package(
    "d/drbd-doc/drbd-doc_8.4~20220106-1_all.deb",
    "9dfa401fc32f055bb655f40c5af30b09bcc5d1aaed9ab65b48a11aa32a312e17",
)
BASH = Package(
    "b/bash/bash-doc_5.2.15-2_all.deb",
    "2c1a353f7004d14ba81db19c253b958d2dd9582027650739c530fd50376a9d8b",
)
XOTCL = Package(
    "x/xotcl/xotcl-doc_1.6.8-5_all.deb",
    "03502b5d78127ecc092cb0c541fb0800cd59cecccf0ab1d290b877ca7d1482bb",
)
ANDIKA = Package(
    "f/fonts-sil-andika/fonts-sil-andika_6.101-2_all.deb",
    "c8bf1fa578f14feb3f6043ceba44095355eb385642f111e35623937e5c90d735",
)
ARGTABLE = Package(
    "a/argtable2/libargtable2-docs_13-1.1_all.deb",
    "e651a65fc342beef5e642ca88ad5ba472fefe3a06e403ae9a8a7660278aada2b",
)
KANNEL = Package(
    "k/kannel/kannel-docs_1.4.5-12_all.deb",
    "3692d3b828a8ad52b69995dd394536433b9e44717f27e030a973c94746b9b84a",
)
EPHEMERIS = Package(
    "libs/libswe/libswe-doc_2.10.03-3_all.deb",
    "ba29a2ab40cc4adeafd4f9583e9634c79a44a804ed288d9ebab742ccc2f58e32",
)
MENHIR = Package(
    "m/menhir/menhir-doc_20220210+ds-2_all.deb",
    "a25fc2e08f9b3c29679a5bfaa24d75e635568d19d066f297be2e14f5b42a4fcf",
)
PARALLEL = Package(
    "p/parallel/parallel_20221122+ds-2_all.deb",
    "6f515189a784f63fe28b11b262f404b0a1a74cc63dac4038bb31f248e3706dc4",
)
R_PAGES = Package(
    "r/r-base/r-doc-html_4.2.2.20221110-2_all.deb",
    "2c615dd386993a440b80fd4e9060318386e31fbe47f5be65f295f5fb34002c5c",
)
R = Package(
    "r/r-base/r-doc-pdf_4.2.2.20221110-2_all.deb",
    "beb104ad5818d261f280a868294645ca31d7c63365f2c9a55aa3ca9aad5aa71d",
)


def _same(
    name: str, producer: str, package: Package, stem: str, language: Language = "en"
) -> Manual:
    """One whose PDF and web page stand side by side."""
    stem = f"usr/share/{stem}"
    return Manual(name, producer, package, f"{stem}.pdf", (f"{stem}.html",), language)


INSTALL = "usr/share/doc/installation-guide-amd64/de/"
REFERENCE_PAGES = "usr/share/debian-reference/"
NORM_STEM = "doc/libnorm-doc/NormDeveloperGuide"
ANDIKA_PAGES = "usr/share/doc/fonts-sil-andika/documentation/"
DRBD_PAGES = "usr/share/doc/drbd-doc/"
R_MANUAL = "usr/share/R/doc/manual/R-intro"
MANUALS = (
    _same("edu", "dblatex", EDU, "doc/debian-edu-doc-de/debian-edu-bookworm-manual", "de"),
    _same("developers", "Sphinx", DEVELOPERS, "developers-reference/de/developers-reference", "de"),
    Manual(
        "installation", "dblatex", INSTALLATION, f"{INSTALL}install.de.pdf",
        (f"{INSTALL}pr*.html", f"{INSTALL}ch*.html", f"{INSTALL}ap*.html"), "de",
    ),
    Manual(
        "reference", "dblatex", REFERENCE, f"{REFERENCE_PAGES}debian-reference.de.pdf",
        (f"{REFERENCE_PAGES}ch*.de.html",), "de",
    ),
    _same("texlive", "pdfTeX", TEXLIVE, "doc/texlive-doc/texlive/texlive-de/texlive-de", "de"),
    _same("hierarchy", "FOP", POLICY, "doc/debian-policy/fhs/fhs-3.0"),
    _same("icccm", "FOP", XORG, "doc/xorg-docs/icccm/icccm"),
    _same("xlfd", "FOP", XORG, "doc/xorg-docs/xlfd/xlfd"),
    _same("docbook", "XEP", DOCBOOK, "doc/docbook5-xml/docs/howto"),
    _same("norm", "XEP", NORM, NORM_STEM),
    Manual(
        "drbd", "Asciidoctor", DRBD, f"{DRBD_PAGES}drbd-users-guide.pdf",
        (f"{DRBD_PAGES}users-guide/drbd-users-guide.html",),
    ),
    _same("bash page", "groff", BASH, "doc/bash/bash"),
    _same("bash", "Texinfo", BASH, "doc/bash/bashref"),
    _same("xotcl", "HTMLDOC", XOTCL, "doc/xotcl-doc/readings/tutorial"),
    Manual(
        "andika features", "cairo", ANDIKA, f"{ANDIKA_PAGES}pdf/features.pdf",
        (f"{ANDIKA_PAGES}features.html",),
    ),
    Manual(
        "andika characters", "cairo", ANDIKA, f"{ANDIKA_PAGES}pdf/charset.pdf",
        (f"{ANDIKA_PAGES}charset.html",),
    ),
    _same("argtable", "OpenOffice", ARGTABLE, "doc/libargtable2-docs/argtable2-advanced"),
    _same("kannel", "jadetex", KANNEL, "doc/kannel-docs/userguide/userguide"),
    _same("ephemeris", "XeTeX", EPHEMERIS, "doc/libswe-doc/swephprg"),
    _same("menhir", "pdfTeX", MENHIR, "doc/menhir/manual"),
    _same("parallel", "pod2pdf", PARALLEL, "doc/parallel/parallel_tutorial"),
    replace(
        Manual("r", "Texinfo", R, f"{R_MANUAL}.pdf", (f"{R_MANUAL}.html",)), pages_package=R_PAGES
    ),
)  # fmt: skip


def files(manual: Manual, work: Path) -> tuple[Path, Sequence[Path]]:
    """The PDF and the web pages; either may be compressed."""
    place = unpacked(manual.package, work)
    pages_place = unpacked(manual.pages_package or manual.package, work)
    found = [page for pattern in manual.pages for page in _matching(pages_place, pattern)]
    pdf = _matching(place, manual.pdf)
    if not pdf or not found:
        raise Unavailable(f"the package {manual.package.name} has no such manual")
    return pdf[0], found


def _matching(directory: Path, pattern: str) -> list[Path]:
    return sorted(directory.glob(pattern)) or sorted(directory.glob(f"{pattern}.gz"))
