use super::*;

fn junk() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(value!(null)),
        Just(value!(7)),
        Just(value!(true)),
        Just(value!([])),
        Just(value!({})),
        Just(value!(["a", "b"])),
        Just(value!(["a", "b", "c"])),
        Just(value!(["a", "b", "c", "d"])),
        Just(value!("a")),
        Just(value!("")),
    ]
}

fn word() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(value!("")),
        Just(value!(null)),
        Just(value!(3)),
        "[a-c]{1,2}".prop_map(Value::from)
    ]
}

/// A record with any of the fields that are known, or something else.
fn record() -> impl Strategy<Value = Value> {
    const NAMES: [&str; 26] = [
        "id",
        "name",
        "title",
        "type",
        "label",
        "description",
        "source",
        "target",
        "start_node_id",
        "end_node_id",
        "weight",
        "status",
        "subject",
        "object",
        "community",
        "level",
        "text",
        "content",
        "source_id",
        "findings",
        "summary",
        "n_tokens",
        "entity_name",
        "covariate_type",
        "block_id",
        "start_date",
    ];
    let fields = prop::collection::vec((prop::sample::select(&NAMES[..]), word()), 0..6);
    let object = fields.prop_map(|fields| {
        Value::Object(
            fields
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
        )
    });
    prop_oneof![3 => object, 1 => junk()]
}

fn table() -> impl Strategy<Value = Vec<Value>> {
    prop::collection::vec(record(), 0..5)
}

fn count(read: &Extraction) -> usize {
    for reason in read.dropped.keys().chain(read.lost.keys()) {
        assert!(reason::REASONS.contains(reason), "{reason}");
    }
    read.kept() + read.dropped.values().sum::<usize>()
}

proptest! {
    #[test]
    fn every_record_of_a_container_is_kept_or_dropped(tables in prop::collection::vec(table(), 6), format in 0..4usize) {
        let [entities, relations, claims, passages, communities, reports] = &tables[..] else { unreachable!() };
        let format = [Format::Json, Format::Graphrag, Format::Lightrag, Format::Networkx][format];
        let payload = value!({"entities": entities, "relationships": relations, "claims": claims, "text_units": passages,
            "communities": communities, "community_reports": reports});
        let read = read_value(&payload, format).unwrap();
        prop_assert_eq!(count(&read), tables.iter().map(Vec::len).sum::<usize>());
        let reply = value!({"nodes": entities, "edges": relations, "claims": claims});
        prop_assert_eq!(count(&extraction_value(&reply).unwrap()), tables[..3].iter().map(Vec::len).sum::<usize>());
    }

    #[test]
    fn every_record_of_hipporag_is_kept_or_dropped(docs in prop::collection::vec((table(), table()), 1..4)) {
        let rows: Vec<Value> = docs.iter().enumerate()
            .map(|(at, (names, triples))| value!({"idx": at, "passage": "p", "extracted_entities": names, "extracted_triples": triples})).collect();
        let read = read_value(&value!({"docs": rows}), Format::Auto).unwrap();
        prop_assert_eq!(read.format, Format::Hipporag);
        prop_assert_eq!(count(&read), docs.iter().map(|(names, triples)| 1 + names.len() + triples.len()).sum::<usize>());
    }

    #[test]
    fn every_line_is_kept_or_dropped(lines in prop::collection::vec(prop::collection::vec("[a-c]{0,2}", 1..6), 1..6)) {
        let text: Vec<String> = lines.iter().map(|fields| fields.join(",")).collect();
        let full = lines.iter().filter(|fields| fields.iter().any(|field| !field.is_empty())).count();
        if let Ok(read) = read(&text.join("\n"), Format::Csv) {
            prop_assert_eq!(count(&read), full);
        }
    }

    #[test]
    fn every_tuple_is_kept_or_dropped(rows in prop::collection::vec((0..4usize, prop::collection::vec("[A-Z]{0,2}|TRUE|[0-9]", 1..9)), 1..6)) {
        let kinds = ["\"entity\"", "\"relationship\"", "X", "\"claim\""];
        let text: Vec<String> = rows.iter().map(|(kind, fields)| format!("({}<|>{})", kinds[*kind], fields.join("<|>"))).collect();
        if let Ok(read) = read(&text.join("\n##\n"), Format::Tuple) {
            prop_assert_eq!(count(&read), rows.len(), "{:?}", read);
        }
    }

    #[test]
    fn every_node_and_edge_is_kept_or_dropped(nodes in prop::collection::vec("[a-c0-3]{0,2}", 0..5), edges in prop::collection::vec(("[a-c0-3]{0,2}", "[a-c0-3]{0,2}"), 0..5)) {
        let mut text = "<graphml><graph>".to_owned();
        nodes.iter().for_each(|id| text += &format!("<node id=\"{id}\"/>"));
        edges.iter().for_each(|(source, target)| text += &format!("<edge source=\"{source}\" target=\"{target}\"></edge>"));
        let read = read(&text, Format::Graphml).unwrap();
        prop_assert_eq!(count(&read), nodes.len() + edges.len());
    }
}
