"""Fictional conference schedules, as the programs of real conferences write them."""

import json
from typing import Any

#: As FOSDEM publishes it after the event.
FOSDEM = """<?xml version="1.0" encoding="UTF-8"?>
<schedule>
  <conference>
    <title>FOSDEM 2031</title>
    <subtitle/>
    <venue>ULB</venue>
    <city>Brussels</city>
    <start>2031-02-01</start>
    <end>2031-02-02</end>
    <days>2</days>
    <day_change>09:00:00</day_change>
    <timeslot_duration>00:05:00</timeslot_duration>
    <time_zone_name>Europe/Brussels</time_zone_name>
  </conference>
  <day index="1" date="2031-02-01" start="2031-02-01T09:00:00+01:00">
    <room name="Janson" slug="janson">
      <event guid="0a5d1a36-3e3c-5d2c-9e4e-0d4d0c1e2f01" id="9101">
        <date>2031-02-01T17:00:00+01:00</date>
        <start>17:00</start>
        <duration>00:50</duration>
        <room>Janson</room>
        <slug>fosdem-2031-9101-gardens-of-code</slug>
        <url>https://fosdem.org/2031/schedule/event/fosdem-2031-9101-gardens-of-code/</url>
        <title>Gardens of code: how forks grow</title>
        <subtitle></subtitle>
        <track>Main Track - Janson</track>
        <type>maintrack</type>
        <language>en</language>
        <abstract>&lt;p&gt;Forks are &lt;em&gt;gardens&lt;/em&gt;.&lt;/p&gt;</abstract>
        <description></description>
        <persons>
          <person id="1">Ada Müller</person>
          <person id="2">Bram  van  Dijk</person>
          <person id="1">Ada Müller</person>
        </persons>
        <attachments>
          <attachment type="other" href="https://fosdem.org/2031/events/attachments/x/paper.pdf">Paper</attachment>
          <attachment type="slides" href="https://fosdem.org/2031/events/attachments/x/slides/1/gardens_HyZR9km.pdf">Our talk</attachment>
        </attachments>
        <links>
          <link href="https://video.fosdem.org/2031/janson/fosdem-2031-9101-gardens-of-code.av1.webm">Video recording (AV1/WebM) - 103.4 MB</link>
          <link href="https://video.fosdem.org/2031/janson/fosdem-2031-9101-gardens-of-code.mp4">Video recording (MP4) - 436.8 MB</link>
          <link href="https://video.fosdem.org/2031/janson/fosdem-2031-9101-gardens-of-code.vtt">Video recording subtitle file (VTT)</link>
          <link href="https://fosdem.org/submission/feedback/9101">Submit Feedback</link>
          <link href="javascript:alert(1)">No link</link>
        </links>
      </event>
    </room>
  </day>
  <day index="2" date="2031-02-02">
    <room name="H.1302">
      <event id="9102">
        <start>23:40</start><duration>00:50</duration><room>H.1302</room>
        <slug>welcome_rust</slug><title>Welcome</title>
        <track>Rust</track><language/><persons/><links/>
      </event>
      <event id="9103">
        <start>10:00</start><duration>00:05</duration><slug>welcome_go</slug>
        <title>WELCOME</title><track>Go</track>
      </event>
    </room>
  </day>
</schedule>
"""  # noqa: E501

#: As frab writes it.
FRAB = """<?xml version="1.0" encoding="utf-8"?>
<schedule>
  <version>1.3</version>
  <conference>
    <acronym>tagung31</acronym><title>Tagung der Träume</title>
    <start>2031-05-09</start><end>2031-05-11</end><days>1</days>
    <timeslot_duration>00:15</timeslot_duration>
    <base_url>https://tagung.example/2031/Fahrplan/</base_url>
  </conference>
  <day index="1" date="2031-05-09" end="2031-05-10T04:00:00+02:00" start="2031-05-09T10:00:00+02:00">
    <room name="Saal 1">
      <event guid="5f2f0b1a-0000-4000-8000-000000000001" id="77">
        <date>2031-05-10T01:30:00+02:00</date>
        <start>01:30</start><duration>01:15</duration><room>Saal 1</room>
        <slug>tagung31-77-nachts_im_saal</slug>
        <url>events/77.html</url>
        <recording><license>CC BY 4.0</license><optout>false</optout></recording>
        <title>Nachts im Saal: &lt;script&gt;alert("x")&lt;/script&gt; &amp; mehr</title>
        <subtitle>Ein Versuch</subtitle><track>Kunst &amp; Bühne</track><type>lecture</type>
        <language>de-formal</language><abstract>Dunkel.</abstract><description/>
        <persons><person id="5">Jörg</person></persons>
        <links><link href="https://media.ccc.de/v/tagung31-77-nachts_im_saal">Mitschnitt</link></links>
        <attachments><attachment href="/system/attachments/9/original/folien.odp?1746">Folien</attachment></attachments>
      </event>
    </room>
  </day>
</schedule>
"""  # noqa: E501


def pretalx() -> dict[str, Any]:
    """As pretalx writes it."""
    talk = {
        "id": 31, "guid": "8f4b7c80-1111-4222-8333-944444444444", "code": "ABC3DE", "logo": None,
        "date": "2031-09-12T11:00:00+02:00", "start": "11:00", "duration": "00:30",
        "room": "Großer Saal", "slug": "minicon-2031-31-ducks-in-a-row",
        "url": "https://pretalx.example/minicon-2031/talk/ABC3DE/",
        "title": "Ducks in a row", "subtitle": "", "track": "Birds", "type": "Talk",
        "language": "en", "abstract": "Ducks.", "description": "", "recording_license": "",
        "do_not_record": False,
        "persons": [
            {"id": 1, "code": "XY", "public_name": "Cleo Ó Briain", "biography": None},
            {"name": "Dr. D"},
        ],
        "links": [{"title": "Recording", "url": "https://www.youtube.com/embed/abcDEF-1234"}],
        "attachments": [{"title": "Slides", "url": "/media/minicon/ducks.pptx", "type": "related"}],
    }  # fmt: skip
    days = [
        {
            "index": 1, "date": "2031-09-12",
            "day_start": "2031-09-12T04:00:00+02:00", "day_end": "2031-09-13T03:59:00+02:00",
            "rooms": {"Großer Saal": [talk], "Leer": []},
        }
    ]  # fmt: skip
    conference = {"acronym": "minicon-2031", "title": "MiniCon 2031", "daysCount": 1, "days": days}
    schedule = {"version": "0.7", "base_url": "https://pretalx.example/minicon-2031/schedule/",
                "conference": conference}  # fmt: skip
    return {"schedule": schedule, "generator": {"name": "pretalx", "version": "2031.1"}}


def pretalx_json() -> bytes:
    return json.dumps(pretalx()).encode()
