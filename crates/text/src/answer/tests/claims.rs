use std::collections::BTreeMap;

use super::extractions::shown;
use super::*;

/// Each claim as `subject|object|kind|status|start|end|description|quotes`.
fn claims(read: &Extraction) -> Vec<String> {
    let or = |text: &Option<String>| text.clone().unwrap_or("-".into());
    let fields = |c: &Claim| {
        [
            c.subject.clone(),
            or(&c.object),
            or(&c.kind),
            or(&c.status),
            or(&c.start),
            or(&c.end),
            or(&c.description),
            c.quotes.join(" / "),
        ]
    };
    read.claims.iter().map(|claim| fields(claim).join("|")).collect()
}

fn counts(of: &BTreeMap<&'static str, usize>) -> Vec<(&'static str, usize)> {
    of.iter().map(|(reason, count)| (*reason, *count)).collect()
}

#[test]
fn claims_in_tuples() {
    let expected = [
        "MILL CO|-|FRAUD|TRUE|2021-03-04T00:00:00|2021-03-04T00:00:00|It cheated (twice)|\"They cheated.\"",
        "ANN|MILL CO|THEFT|SUSPECTED|-|-|She took it|She may.",
    ];
    for (reply, repairs) in [
        (
            "(MILL CO<|>NONE<|>FRAUD<|>TRUE<|>2021-03-04T00:00:00<|>2021-03-04T00:00:00<|>It cheated (twice)<|>\"They cheated.\")\n##\n\
             (ANN<|>MILL CO<|>THEFT<|>SUSPECTED<|>NONE<|>NONE<|>She took it<|>She may.)\n<|COMPLETE|>",
            "",
        ),
        // Without brackets, in lines, with damaged marks and statuses of another case.
        (
            "MILL CO<||>none<|>FRAUD<|>true<|>2021-03-04T00:00:00<|>2021-03-04T00:00:00<|>It cheated (twice)<|>They cheated.\n\
             ANN< | >MILL CO<|>THEFT<|>\"Suspected\"<|>N/A<|><|>She took it<|>She may.",
            "broken",
        ),
        (
            "Here:\n(claim<|>MILL CO<|>NONE<|>FRAUD<|>TRUE<|>2021-03-04T00:00:00<|>2021-03-04T00:00:00<|>It cheated (twice)<|>“They cheated.”)\n\
             (\"claim\"<|>“ANN”<|>MILL CO<|>THEFT<|>SUSPECTED<|>NONE<|>NONE<|>She took it<|>She may.)",
            "fence",
        ),
        (
            "Sure, these are they.\n(MILL CO<|>NONE<|>FRAUD<|>TRUE<|>2021-03-04T00:00:00<|>2021-03-04T00:00:00<|>It cheated (twice)<|>They cheated.)##\
             (ANN<|>MILL CO<|>THEFT<|>SUSPECTED<|>NONE<|>NONE<|>She took it<|>She may.)",
            "fence",
        ),
    ] {
        let read = extraction(reply).unwrap_or_else(|e| panic!("{reply}: {e}"));
        let bare = |claims: Vec<String>| claims.iter().map(|claim| claim.replace('"', "")).collect::<Vec<_>>();
        assert_eq!(bare(claims(&read)), bare(expected.map(str::to_owned).into()), "{reply}");
        assert_eq!(names_of(read.repairs), repairs, "{reply}");
        assert_eq!(counts(&read.dropped), [], "{reply}");
        assert_eq!(read.format, Format::Tuple);
    }
}

#[test]
fn claims_with_parts_missing() {
    let read = extraction(
        "(A<|>NONE<|>T<|>TRUE<|>last May<|>2021-02-30<|>d<|>q)##(A<|>B<|>CLAIM<|>FALSE<|>2021<|>2021-03<|>d)##\
         (A<|>B<|>T<|>TRUE<|>NONE<|>NONE<|>d<|>q<|>r)##(A<|>B<|>T<|>MAYBE<|>NONE<|>NONE<|>d<|>q)##\
         (A<|>B<|>T<|>TRUE<|>NONE)##(\"\"<|>B<|>T<|>TRUE<|>NONE<|>NONE<|>d<|>q)##(claim<|>A<|>B<|>T<|>MAYBE<|>NONE<|>NONE<|>d<|>q)##\
         (\"entity\"<|>A<|>T<|>d)##(A<|>B<|>T<|>TRUE<|>NONE<|>NONE<|>d<|>cut he",
    )
    .unwrap();
    assert_eq!(
        claims(&read),
        [
            "A|-|T|TRUE|-|-|d|q",
            "A|B|CLAIM|FALSE|2021|2021-03|d|",
            "A|B|T|-|-|-|d|q",
        ]
    );
    assert_eq!(shown(&read), ["A|T|d"]);
    assert_eq!(
        counts(&read.dropped),
        [
            ("cut", 1),
            ("no name", 1),
            ("too few fields", 1),
            ("too many fields", 1),
            ("unknown kind", 1)
        ]
    );
    assert_eq!(counts(&read.lost), [("bad date", 2), ("bad status", 1)]);
}

#[test]
fn claims_in_json() {
    let reply = value!({"entities": [{"id": 7, "name": "ANN"}], "claims": [
        {"subject": "ANN", "object": "NONE", "claim_type": "THEFT", "status": "true", "start_date": "2021-03-04", "end_date": null,
            "description": "d", "source_text": ["q", "r"], "source_key": "k", "block_id": 5},
        {"subject_id": "7", "object_id": "MILL", "type": "T", "status": false, "start_date": "soon", "block_id": "x"},
        {"claim": "d"}, 3]});
    for reply in [
        reply.to_string(),
        reply.to_string().replace("\"claims\"", "\"Covariates\""),
    ] {
        let read = extraction(&reply).unwrap();
        assert_eq!(
            claims(&read),
            ["ANN|-|THEFT|TRUE|2021-03-04|-|d|q / r", "ANN|MILL|T|FALSE|-|-|-|"]
        );
        assert_eq!(read.claims[0].origin.source_key.as_deref(), Some("k"));
        assert_eq!(read.claims[0].origin.block_id, Some(5));
        assert_eq!(counts(&read.dropped), [("no name", 1), ("not a record", 1)]);
        assert_eq!(counts(&read.lost), [("bad date", 1), ("bad number", 1)]);
    }
    let read = extraction_value(
        &value!([{"subject_id": "A", "object_id": "B", "covariate_type": "claim", "type": "T", "status": "SUSPECTED",
        "source_text": "q", "text_unit_id": "t1"}]),
    )
    .unwrap();
    assert_eq!(claims(&read), ["A|B|T|SUSPECTED|-|-|-|q"]);
    assert_eq!(read.claims[0].origin.sources, ["t1"]);
}

#[test]
fn a_relation_with_a_status_is_no_claim() {
    let read =
        extraction_value(&value!([{"source": "A", "target": "B", "relation": "owns", "status": "true"}])).unwrap();
    assert_eq!(shown(&read), ["A|owns|B|-|-|-"]);
    assert_eq!(read.relations[0].properties["status"], value!("true"));
}

#[test]
fn dates_are_those_of_iso() {
    for (date, sound) in [
        ("2021", true),
        ("2021-03", true),
        ("2021-03-04", true),
        ("2021-03-04T05:06", true),
        ("2021-03-04 05:06:07.25", true),
        ("2021-03-04T05:06:07Z", true),
        ("2021-03-04T05:06:07+02:00", true),
        ("2021-03-04T05:06:07-0230", true),
        ("2020-02-29", true),
        ("2021-02-29", false),
        ("1900-02-29", false),
        ("2021-13-01", false),
        ("2021-00-01", false),
        ("2021-04-31", false),
        ("2021-3-4", false),
        ("2021-03-04-05", false),
        ("2021-03T05:06", false),
        ("2021-03-04T25:00", false),
        ("2021-03-04T05", false),
        ("2021-03-04T05:06+é", false),
        ("2021-03-04T05:06:07:08", false),
        ("0000", false),
        ("March 2021", false),
        ("٢٠٢١", false),
    ] {
        let read = extraction_value(&value!({"claims": [{"subject": "A", "start_date": date}]})).unwrap();
        let expected = sound.then(|| date.to_owned());
        assert_eq!(read.claims[0].start, expected, "{date}");
        assert_eq!(read.lost.contains_key(reason::BAD_DATE), !sound, "{date}");
    }
}
