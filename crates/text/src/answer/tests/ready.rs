use super::extractions::shown;
use super::*;

fn read_as(payload: &Value, format: Format) -> Extraction {
    let read = read(&payload.to_string(), Format::Auto).unwrap_or_else(|e| panic!("{payload}: {e}"));
    assert_eq!(read.format, format, "{payload}");
    assert_eq!(read_value(payload, format), Ok(read.clone()), "{payload}");
    read
}

fn sources(origin: &Origin) -> String {
    origin.sources.join(" ")
}

#[test]
fn tables_of_graphrag() {
    let entities = value!([
        {"id": "e1", "human_readable_id": 0, "title": "ANN", "type": "PERSON", "description": "d", "text_unit_ids": ["t1", "t2"], "frequency": 2, "degree": 1},
        {"id": "e2", "human_readable_id": 1, "title": "MILL", "type": "", "description": null, "text_unit_ids": "{t1,\"t2\"}", "frequency": 1, "degree": 1},
        {"id": "e3", "human_readable_id": 2, "title": "", "type": "T"}]);
    let relationships = value!([{"id": "r1", "human_readable_id": 0, "source": "ANN", "target": "MILL", "description": "owns it", "weight": 3.0,
        "combined_degree": 2, "text_unit_ids": ["t1"]}]);
    let communities = value!([
        {"id": "u", "human_readable_id": 0, "community": 0, "level": 0, "parent": -1, "children": [1], "title": "Community 0", "entity_ids": ["e1", "e2", "e9"],
            "relationship_ids": ["r1"], "text_unit_ids": ["t1"], "period": "2024-01-01", "size": 2},
        {"id": "v", "community": 1, "level": 1, "parent": 0, "children": [], "entity_ids": ["e2"]}, {"level": 2}]);
    let reports = value!([
        {"id": "x", "community": 0, "level": 0, "title": "T", "summary": "S", "full_content": "# T\n\nS", "rank": 7.5, "rating_explanation": "R",
            "findings": [{"summary": "F", "explanation": "E"}]},
        {"community": 1, "level": 1, "title": "U", "summary": "V", "rank": "4", "findings": "[{\"summary\": \"F\"}]"}, {"community": 2}]);
    let units = value!([{"id": "t1", "human_readable_id": 1, "text": "Ann owns the mill.", "n_tokens": 5, "document_ids": ["d"], "entity_ids": ["e1"]},
        {"id": "t2", "text": "", "n_tokens": 0}]);
    let covariates = value!([{"id": "c1", "covariate_type": "claim", "type": "FRAUD", "description": "d", "subject_id": "ANN", "object_id": "NONE",
        "status": "TRUE", "start_date": "2021-01-01", "source_text": "q", "text_unit_id": "t1"}]);
    let read = read_as(
        &value!({"entities": entities, "relationships": relationships, "communities": communities, "community_reports": reports,
            "text_units": units, "covariates": covariates, "documents": null}),
        Format::Graphrag,
    );
    assert_eq!(shown(&read), ["ANN|PERSON|d", "MILL|-|-", "ANN|-|MILL|owns it|-|-"]);
    assert_eq!(sources(&read.entities[0].origin), "t1 t2");
    assert_eq!(sources(&read.entities[1].origin), "t1 t2");
    assert_eq!(read.entities[0].properties["frequency"], value!(2));
    assert_eq!(read.relations[0].weight, Some(3.0));
    assert_eq!(sources(&read.relations[0].origin), "t1");
    let places: Vec<_> = read
        .communities
        .iter()
        .map(|c| (c.id.as_str(), c.level, c.parent.as_deref(), &c.entities[..]))
        .collect();
    assert_eq!(
        places,
        [("0", Some(0), None, &[0, 1][..]), ("1", Some(1), Some("0"), &[1])]
    );
    assert_eq!(read.communities[0].title.as_deref(), Some("Community 0"));
    assert_eq!(read.communities[0].sources, ["t1"]);
    assert_eq!(read.lost[reason::UNKNOWN_ID], 1);
    let reported: Vec<_> = read
        .reports
        .iter()
        .map(|r| (r.community.as_str(), r.report.title.as_str(), r.report.rating))
        .collect();
    assert_eq!(reported, [("0", "T", Some(7.5)), ("1", "U", Some(4.0))]);
    assert_eq!(read.reports[1].report.findings[0].summary, "F");
    assert_eq!(read.reports[0].text.as_deref(), Some("# T\n\nS"));
    let unit = Passage {
        key: "t1".into(),
        text: "Ann owns the mill.".into(),
    };
    assert_eq!(read.passages, [unit]);
    assert_eq!(read.claims[0].quotes, ["q"]);
    assert_eq!(sources(&read.claims[0].origin), "t1");
    assert_eq!(
        read.dropped.clone().into_iter().collect::<Vec<_>>(),
        [("no name", 1), ("too few fields", 3)]
    );
    // One table at a time; old names of the tables.
    for (rows, kept, dropped) in [
        (&entities, 2, 1),
        (&relationships, 1, 0),
        (&units, 1, 1),
        (&covariates, 1, 0),
    ] {
        let read = read_as(rows, Format::Graphrag);
        assert_eq!(
            (read.kept(), read.dropped.values().sum::<usize>()),
            (kept, dropped),
            "{rows}"
        );
    }
    let read = read_as(&communities, Format::Graphrag);
    assert_eq!((read.communities.len(), read.dropped.values().sum::<usize>()), (2, 1));
    let read = read_as(&reports, Format::Graphrag);
    assert_eq!((read.reports.len(), read.dropped.values().sum::<usize>()), (2, 1));
    let read = read_as(
        &value!({"create_final_text_units": units, "create_final_entities": entities}),
        Format::Graphrag,
    );
    assert_eq!((read.passages.len(), read.entities.len()), (1, 2));
}

#[test]
fn custom_graphs_of_lightrag() {
    let read = read_as(
        &value!({
            "chunks": [{"content": "Ann owns the mill.", "source_id": "c1", "file_path": "f"}, {"content": "x"}, 5],
            "entities": [{"entity_name": "Ann", "entity_type": "person", "description": "a<SEP>b", "source_id": "c1<SEP>c2"}],
            "relationships": [{"src_id": "Ann", "tgt_id": "Mill", "description": "d", "keywords": "ownership, trade", "weight": 1.5, "source_id": "c1"}]}),
        Format::Lightrag,
    );
    assert_eq!(shown(&read), ["Ann|person|a\nb", "Ann|ownership|Mill|d|-|-"]);
    assert_eq!(sources(&read.entities[0].origin), "c1 c2");
    assert_eq!(sources(&read.relations[0].origin), "c1");
    assert_eq!(read.relations[0].weight, Some(1.5));
    assert_eq!(read.relations[0].properties["keywords"], value!("ownership, trade"));
    assert_eq!((read.passages.len(), read.passages[0].key.as_str()), (1, "c1"));
    assert_eq!(
        read.dropped.into_iter().collect::<Vec<_>>(),
        [("not a record", 1), ("too few fields", 1)]
    );
}

#[test]
fn passages_of_hipporag() {
    let docs = value!([
        {"idx": "p1", "passage": "Ann owns the mill.", "extracted_entities": ["Ann", "mill", ""], "extracted_triples": [["Ann", "owns", "mill"], ["Ann", "owns"], ["a", "b", "c", "d"]]},
        {"passage": "x", "extracted_entities": [], "extracted_triples": [["x", "is", "y"]]},
        {"idx": 3, "extracted_entities": ["z"], "extracted_triples": []}]);
    for payload in [value!({"docs": docs, "avg_ent_chars": 5.5}), docs.clone()] {
        let read = read_as(&payload, Format::Hipporag);
        assert_eq!(
            shown(&read),
            ["Ann|-|-", "mill|-|-", "z|-|-", "Ann|owns|mill|-|-|-", "x|is|y|-|-|-"]
        );
        let keys: Vec<_> = read
            .passages
            .iter()
            .map(|p| (p.key.as_str(), p.text.as_str()))
            .collect();
        assert_eq!(keys, [("p1", "Ann owns the mill."), ("1", "x")]);
        let from: Vec<_> = read.relations.iter().map(|r| sources(&r.origin)).collect();
        assert_eq!(from, ["p1", "1"]);
        assert_eq!(sources(&read.entities[1].origin), "p1");
        assert_eq!(
            read.dropped.into_iter().collect::<Vec<_>>(),
            [("no name", 1), ("not a triple", 2)]
        );
    }
}

#[test]
fn rows_in_lines() {
    let rows = [
        r#"{"id": "e1", "human_readable_id": 0, "title": "ANN", "type": "PERSON"}"#,
        r#"{"id": "r1", "human_readable_id": 0, "source": "ANN", "target": "e1", "weight": 2}"#,
        r#"{"id": "t1", "text": "Ann.", "n_tokens": 2}"#,
    ];
    let read = read(&rows.join("\n"), Format::Auto).unwrap();
    assert_eq!((read.format, read.repairs), (Format::Graphrag, Repairs::default()));
    assert_eq!(shown(&read), ["ANN|PERSON|-", "ANN|-|ANN|-|-|-"]);
    assert_eq!((read.relations[0].weight, read.passages.len()), (Some(2.0), 1));
}

#[test]
fn nodes_and_links() {
    for (payload, expected, dropped) in [
        (
            value!({"directed": false, "multigraph": false, "graph": {}, "nodes": [{"id": 0, "name": "Ann", "type": "person", "description": "d"},
                {"id": 1, "label": "Mill"}, {"id": "Ben", "label": "person"}, {"id": "u-1", "label": "Cat", "kind": "animal"}, {"id": 9}],
                "links": [{"source": 0, "target": 1, "relation": "owns", "weight": 2, "description": "e"}, {"source": "Ben", "target": "u-1", "label": "feeds"},
                {"source": 0, "target": 77}, {"source": 0, "target": "Dan", "key": 0}, {"source": 0}, 5]}),
            &[
                "Ann|person|d",
                "Mill|-|-",
                "Ben|person|-",
                "Cat|animal|-",
                "9|-|-",
                "Ann|owns|Mill|e|2|-",
                "Ben|feeds|Cat|-|-|-",
                "Ann|-|Dan|-|-|-",
            ][..],
            &[("no name", 1), ("not a triple", 1), ("unknown id", 1)][..],
        ),
        // Places instead of ids.
        (
            value!({"nodes": [{"name": "Ann"}, {"name": "Mill"}], "links": [{"source": 0, "target": 1, "weight": "x"}]}),
            &["Ann|-|-", "Mill|-|-", "Ann|-|Mill|-|-|-"],
            &[],
        ),
        (
            value!({"directed": true, "nodes": [{"id": "0", "name": "1"}, {"id": "1", "name": "0"}], "edges": [{"source": "0", "target": "1"}]}),
            &["1|-|-", "0|-|-", "1|-|0|-|-|-"],
            &[],
        ),
    ] {
        let mut read = read_as(&payload, Format::Networkx);
        assert_eq!(
            read.dropped.clone().into_iter().collect::<Vec<_>>(),
            dropped,
            "{payload}"
        );
        for relation in &mut read.relations {
            assert_eq!(relation.strength, None);
            relation.strength = relation.weight;
        }
        assert_eq!(shown(&read), expected, "{payload}");
    }
}

#[test]
fn graphml() {
    let head = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<!DOCTYPE g [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]>\n\
        <graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n\
        <key id=\"d0\" for=\"node\" attr.name=\"name\" attr.type=\"string\"/><key id=\"d1\" for=\"node\" attr.name=\"entity_type\"><default>x</default></key>\
        <key id=\"d2\" for=\"edge\" attr.name=\"weight\"/><key id=\"d3\" attr.name=\"description\"/><key id=\"d4\" attr.name=\"source_id\"/>\
        <key id=\"label\"/><graph edgedefault=\"undirected\">\n";
    let nodes = "<node id=\"n0\"><data key=\"d0\">Ann &amp; <![CDATA[<Co> & ]]>&b;</data><data key=\"d1\">firm</data><data key=\"d3\">a&lt;SEP&gt;b</data><data key=\"d4\">c1</data></node>\n\
        <node id=\"n1\"><data key=\"d0\">Mill &gt; all</data></node><node id=\"Ben > x\"/><node id=\"n3\"><data key=\"d9\"><y:ShapeNode><y:NodeLabel>Dan</y:NodeLabel><y:Fill/></y:ShapeNode></data></node>\n";
    let edges = "<edge id=\"e0\" source=\"n0\" target=\"n1\"><data key=\"d2\">2.5</data><data key=\"label\">owns</data></edge><edge source='n1' target='n7'/>\
        <edge source=\"Ben > x\" target=\"n3\"></edge><edge source=\"n0\"/><hyperedge><endpoint node=\"n0\"/></hyperedge>\n";
    let whole = format!("{head}{nodes}{edges}</graph></graphml>\n");
    for (payload, cut, repairs) in [
        (whole.clone(), 0, ""),
        (format!("\u{FEFF}{whole}"), 0, ""),
        (format!("{head}{nodes}{edges}</graph>"), 0, "broken"),
        (
            format!("{head}{nodes}{edges}<node id=\"n9\"><data key=\"d0\">Cu"),
            1,
            "broken",
        ),
        (whole.replace("</edge>", ""), 0, ""),
    ] {
        let mut found = read(&payload, Format::Auto).unwrap();
        assert_eq!(found.format, Format::Graphml);
        assert_eq!(names_of(found.repairs), repairs, "{payload}");
        assert_eq!(found.dropped.remove(reason::CUT).unwrap_or(0), cut, "{payload}");
        assert_eq!(found.relations[0].weight, Some(2.5));
        assert_eq!(sources(&found.entities[0].origin), "c1");
        assert_eq!(
            shown(&found),
            [
                "Ann & <Co> & &b;|firm|a\nb",
                "Mill > all|-|-",
                "Ben > x|-|-",
                "Dan|-|-",
                "Ann & <Co> & &b;|owns|Mill > all|-|-|-",
                "Ben > x|-|Dan|-|-|-"
            ],
            "{payload}"
        );
        assert_eq!(
            found.dropped.into_iter().collect::<Vec<_>>(),
            [("no name", 1), ("unknown id", 1), ("unknown kind", 1)],
            "{payload}"
        );
    }
    let empty = read("<graphml><graph></graph></graphml>", Format::Graphml).unwrap();
    assert_eq!(empty.kept(), 0);
    assert_eq!(read("<entity name='A'/>", Format::Graphml), Err(Unreadable::NoRecords));
}
