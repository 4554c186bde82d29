//! Where things are said, on documents made by chance: quotes stand at their offsets, and edges lead to the leaves that hold them.

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::support::{one, run};

/// Sentences by chance in several scripts, with names, quotes, line breaks and headings, in documents of one to forty sentences; and an extractor that
/// copies sentences as careless models do: in another case, with other quotation marks and spaces, cut short, or made up.
const RANDOM: &str = r#"
CREATE FUNCTION pick(VARIADIC words text[]) RETURNS text VOLATILE LANGUAGE sql AS $$SELECT words[1 + floor(random() * cardinality(words))::int]$$;
CREATE FUNCTION name() RETURNS text VOLATILE LANGUAGE sql AS $$SELECT public.pick('Ada Brandt', 'Émile Ångström', 'İpek Çelik', 'Orchard College', 'SR-2023-052',
  '北京大学', 'Анна Каренина', 'Glen Depot', 'straße', '“Night Ferry”', 'O''Neill & Sons')$$;
CREATE FUNCTION sentence() RETURNS text VOLATILE LANGUAGE sql AS $$SELECT public.name() || public.pick(' leads ', E'\nmet ', ' wrote to  ', ' — as ever — praised ') || public.name()
  || public.pick('.', '!', ' “at last”.', '。', ' (see 🚢).') || public.pick(' ', E'\n', E'\n\n', E'\n\n## Part\n\n')$$;
CREATE FUNCTION body(sentences int) RETURNS text VOLATILE LANGUAGE sql AS $$SELECT string_agg(public.sentence() || repeat(i::text, 0), '') FROM generate_series(1, sentences) i$$;
CREATE FUNCTION careless(block text) RETURNS jsonb IMMUTABLE LANGUAGE sql AS $$
  SELECT jsonb_build_object('relations', coalesce(jsonb_agg(jsonb_build_object('subject', split_part(line, ' ', 1), 'predicate', 'p', 'object', 'Ada Brandt', 'quote',
    CASE n % 5 WHEN 0 THEN line WHEN 1 THEN upper(line) WHEN 2 THEN replace(replace(line, '“', '"'), ' ', '  ') WHEN 3 THEN line || ' and so on' ELSE 'made up' END)), '[]'))
  FROM (SELECT line, n FROM regexp_split_to_table(block, '\n') WITH ORDINALITY AS l (line, n) WHERE length(line) > 12) l$$;
SELECT setseed(0.25)"#;

const DOCUMENTS: &str = "INSERT INTO kb.document (source_key, title, body) \
    SELECT i, CASE WHEN i % 3 = 0 THEN public.name() END, public.body(1 + (i * 7) % 40) FROM generate_series(1, 120) i";

fn check(client: &mut Client) {
    let counts = "SELECT count(*) FROM kb.evidence WHERE quote IS NOT NULL";
    assert!(one::<i64>(client, counts) > 300);
    let astray = "SELECT count(*) FROM kb.evidence e JOIN kb.document d ON d.id = e.document_id LEFT JOIN kb.block b ON b.id = e.block_id \
                  WHERE num_nulls(e.quote, e.start_char, e.end_char) NOT IN (0, 3) OR e.quote <> substr(d.body, e.start_char + 1, e.end_char - e.start_char) \
                  OR b.document_id <> d.id OR e.start_char NOT BETWEEN b.start_char AND b.end_char OR e.end_char > b.end_char";
    assert_eq!(one::<i64>(client, astray), 0, "evidence");
    let astray = "SELECT count(*) FROM kb.mention m JOIN kb.document d ON d.id = m.document_id \
                  WHERE num_nulls(m.start_char, m.end_char) = 1 OR m.start_char >= m.end_char OR m.end_char > length(d.body)";
    assert_eq!(one::<i64>(client, astray), 0, "mentions");
    // An edge names the leaves whose windows its quotes go through, and no others.
    let astray = "WITH said AS (SELECT s.name AS source, r.predicate, t.name AS target, array_agg(DISTINCT n.id ORDER BY n.id) AS leaves \
                    FROM kb.evidence e JOIN kb.relation r ON r.id = e.relation_id JOIN kb.entity s ON s.id = r.source_id JOIN kb.entity t ON t.id = r.target_id \
                    JOIN kb.node n ON n.document_id = e.document_id AND n.level = 0 AND n.start_char < e.end_char AND n.end_char > e.start_char GROUP BY r.id, 1, 2, 3), \
                  told AS (SELECT DISTINCT g.source, g.predicate, g.target, ARRAY(SELECT unnest(g.node_ids) ORDER BY 1) AS leaves \
                    FROM kb.entity e, graph_local('kb', e.name, 1, max_edges => 100000) g) \
                  SELECT (SELECT count(*) FROM (TABLE said EXCEPT TABLE told) x) || ' ' || (SELECT count(*) FROM (SELECT * FROM told WHERE leaves <> '{}' EXCEPT TABLE said) x)";
    assert_eq!(one::<String>(client, astray), "0 0", "leaves");
    let weights = "SELECT count(*) FROM kb.relation r WHERE weight <> (SELECT count(DISTINCT block_id) FROM kb.evidence e WHERE e.relation_id = r.id)";
    assert_eq!(one::<i64>(client, weights), 0, "weights");
}

#[test]
fn without_a_model() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, RANDOM);
    run(
        &mut client,
        r#"SELECT rag_create('kb', settings => '{"block_tokens": 100, "leaf_tokens": 20, "leaf_overlap": 6, "edge_npmi": -1, "phrase_documents": 1}')"#,
    );
    run(&mut client, &format!("{DOCUMENTS}; SELECT graph_extract('kb')"));
    check(&mut client);
}

#[test]
fn with_a_careless_model() {
    let database = Database::new();
    let mut client = database.client();
    run(&mut client, RANDOM);
    run(
        &mut client,
        r#"SELECT rag_create('kb', extractor => 'function:public.careless', settings => '{"block_tokens": 100, "leaf_tokens": 20, "leaf_overlap": 6}')"#,
    );
    run(&mut client, DOCUMENTS);
    let lost: i64 = one(
        &mut client,
        "SELECT (reasons ->> 'quote not found')::bigint FROM graph_extract('kb')",
    );
    let made_up: i64 = one(
        &mut client,
        "SELECT sum((SELECT count(*) FROM jsonb_array_elements(careless(text) -> 'relations') r WHERE r ->> 'quote' = 'made up'))::bigint FROM kb.block",
    );
    assert!(made_up > 50 && lost >= made_up, "{lost} {made_up}");
    check(&mut client);
}
