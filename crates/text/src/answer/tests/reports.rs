use super::*;

fn finding(summary: &str, explanation: Option<&str>) -> Finding {
    Finding {
        summary: summary.to_owned(),
        explanation: explanation.map(str::to_owned),
    }
}

#[test]
fn reports_in_json_and_xml() {
    let findings = vec![finding("F1", Some("E1 [Data: Entities (1)]")), finding("F2", None)];
    for (reply, rating, repairs) in [
        (
            "{\"title\": \"T\", \"summary\": \"S\", \"rating\": 7.5, \"rating_explanation\": \"R\", \
              \"findings\": [{\"summary\": \"F1\", \"explanation\": \"E1 [Data: Entities (1)]\"}, \"F2\"]}",
            7.5,
            "",
        ),
        (
            "```json\n[{\"report\": {\"Title\": \"\\\"T\\\"\", \"summary\": \"S\", \"rating\": \"75/100\", \
              \"findings\": [{\"title\": \"F1\", \"description\": \"E1 [Data: Entities (1)]\"}, {\"explanation\": \"F2\"}, {\"expl",
            7.5,
            "fence broken",
        ),
        (
            "{\"title\": \"T\", \"summary\": \"S\", \"rating\": \"12\", \"findings\": [{\"summary\": \"F1\", \"explanation\": \"E1 [Data: Entities (1)]\"}, {\"summary\": \"F2\"}],}",
            10.0,
            "broken",
        ),
        (
            "<community><name>T</name><summary>S</summary><rating>7.5/10</rating><rating_explanation>R</rating_explanation>\
              <findings><finding><summary>F1</summary><explanation>E1 [Data: Entities (1)]</explanation></finding><finding>F2</finding></findings></community>",
            7.5,
            "",
        ),
    ] {
        let expected = Report {
            title: "T".into(),
            summary: "S".into(),
            rating: Some(rating),
            rating_explanation: reply.contains("rating_explanation").then(|| "R".into()),
            findings: findings.clone(),
            ..Report::default()
        };
        let read = report(reply).unwrap_or_else(|e| panic!("{reply}: {e}"));
        assert_eq!(names_of(read.repairs), repairs, "{reply}");
        assert_eq!(
            Report {
                repairs: Repairs::default(),
                ..read
            },
            expected,
            "{reply}"
        );
    }
}

#[test]
fn reports_with_parts_missing() {
    let long = format!("Word {}end. Rest.", "word ".repeat(30));
    let cut = format!("Word {}", "word ".repeat(19)).trim().to_owned();
    for (reply, title, summary) in [
        ("{\"summary\": \"One thing. Two.\"}", "One thing.", "One thing. Two."),
        ("{\"title\": \"T\", \"summary\": \"cu", "T", "T"),
        ("{\"title\": \"T\", \"findings\": [\"F1.\", \"F2.\"]}", "T", "F1. F2."),
        (
            "# **T**\n\nOne [Data: Entities (1)].\n\n## More\nTwo.",
            "T",
            "One [Data: Entities (1)].\n\n## More\nTwo.",
        ),
        ("```markdown\n# T\nOne.\n```", "T", "One."),
        ("Title: T\nOne.", "T", "One."),
        ("**T**\nOne.", "T", "One."),
        ("Here is the summary:\n\nOne thing. Two.", "One thing.", "Two."),
        ("One thing", "One thing", "One thing"),
        ("# T", "T", "T"),
        (&long, &cut, &long),
    ] {
        let read = report(reply).unwrap_or_else(|e| panic!("{reply}: {e}"));
        assert_eq!(
            (read.title.as_str(), read.summary.as_str()),
            (title, summary),
            "{reply}"
        );
    }
    for reply in ["{\"ti", "{\"x\": 1}", "```json\n{\"title\": \"cu", "{\"title\": \" \"}"] {
        assert_eq!(report(reply), Err(Unreadable::NoReport), "{reply}");
    }
}
