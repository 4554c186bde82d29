//! Embedders that are sums of others: their vectors stand side by side.

use pg_graphrag_tests::Database;
use postgres::Client;

use crate::lsa::{documents, state};
use crate::models_support::{Heard, collection, create_server, mock, told};
use crate::support::{failure, list, one, run};

/// A function that embeds by the first letters, and counts how often it is called.
const COUNTING: &str = "CREATE SEQUENCE calls; CREATE FUNCTION embed(input text) RETURNS real[] LANGUAGE sql AS \
    $$ SELECT ARRAY[1 + nextval('public.calls') * 0, length(input), ascii(input), ascii(reverse(input))]::real[] $$; ";

/// Rows whose vector is not what the embedder makes of their text now, but for the last digit: what a part keeps is scaled anew.
fn misfits(client: &mut Client) -> i64 {
    let sql = "SELECT count(*) FROM kb.node WHERE embedding IS NULL OR embedding <-> rag_embed('kb', text) > 1e-5";
    one(client, sql)
}

fn calls(client: &mut Client) -> i64 {
    one(
        client,
        "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM calls",
    )
}

/// A collection whose embedder is half a function, half learned.
fn half(client: &mut Client, embedder: &str) {
    run(
        client,
        &format!(
            "{COUNTING} SELECT rag_create('kb', 36, '{embedder}'); {}",
            documents(1, 40)
        ),
    );
    run(client, "CALL rag_refresh('kb')");
}

#[test]
fn the_cosine_is_the_weighted_mean_of_the_cosines() {
    let database = Database::new();
    let mut client = database.client();
    half(&mut client, "0.3 * function:public.embed(4) + 0.9*builtin:lsa");
    assert_eq!(state(&mut client, "leaves"), 40);
    run(
        &mut client,
        "SELECT rag_create('f', 4, 'function:public.embed'); INSERT INTO f.document (body) SELECT body FROM kb.document; \
         SELECT rag_create('l', 32); INSERT INTO l.document (body) SELECT body FROM kb.document",
    );
    run(&mut client, "CALL rag_refresh('f', steps => '{embed}')");
    assert_eq!(misfits(&mut client), 0);
    let sql = "WITH q AS (SELECT rag_embed('kb', t) AS kb, rag_embed('f', t) AS f, rag_embed('l', t) AS l \
                 FROM (VALUES ('The owl and the oven')) v (t)) \
               SELECT max(abs((1 - (n.embedding <=> q.kb)) - 0.25 * (1 - (f.embedding <=> q.f)) - 0.75 * (1 - (l.embedding <=> q.l)))) \
               FROM q, kb.node n JOIN f.node f USING (text) JOIN l.node l USING (text) WHERE n.level = 0";
    let deviation: f64 = one(&mut client, sql);
    assert!(deviation < 1e-5, "{deviation}");
    assert_eq!(
        one::<i64>(&mut client, "SELECT count(*) FROM raptor_search('kb', 'owl', k => 5)"),
        5
    );
}

#[test]
fn learning_anew_asks_the_other_part_for_nothing() {
    let database = Database::new();
    let mut client = database.client();
    half(&mut client, "function:public.embed(4) + builtin:lsa");
    let rounded = "SELECT string_agg(round(x::numeric, 5)::text, ' ' ORDER BY text, n) FROM kb.node, \
                     unnest(l2_normalize(subvector(embedding, 1, 4))::real[]) WITH ORDINALITY u (x, n) WHERE level = 0";
    let (asked, before) = (calls(&mut client), one::<String>(&mut client, rounded));
    assert!(asked > 0);
    // Forgets what was learned, so that it is learned anew.
    run(&mut client, "UPDATE kb.setting SET value = '{}' WHERE key = 'lsa'");
    run(&mut client, "CALL rag_refresh('kb', steps => '{embed}')");
    assert_eq!((state(&mut client, "leaves"), calls(&mut client)), (40, asked));
    assert_eq!(one::<String>(&mut client, rounded), before);
    assert_eq!(misfits(&mut client), 0);
    // A build, which learns in its own transaction, neither.
    let asked = calls(&mut client);
    run(&mut client, "UPDATE kb.setting SET value = '{}' WHERE key = 'lsa'");
    run(
        &mut client,
        "BEGIN; DELETE FROM kb.node WHERE level > 0; SELECT raptor_build('kb')",
    );
    let summaries: i64 = one(&mut client, "SELECT count(*) FROM kb.node WHERE level > 0");
    assert!(calls(&mut client) - asked <= summaries);
    run(&mut client, "COMMIT");
    assert_eq!(misfits(&mut client), 0);
}

#[test]
fn leaves_that_wait_for_the_other_part_get_what_was_learned_meanwhile() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        &format!(
            "{COUNTING} SELECT rag_create('kb', 36, 'function:public.embed(4) + builtin:lsa'); {}",
            documents(1, 40)
        ),
    );
    let embedded = "SELECT count(embedding) FROM kb.node";
    assert_eq!(one::<i64>(&mut client, embedded), 0);
    run(&mut client, "CALL rag_refresh('kb', steps => '{embed}')");
    assert_eq!(one::<i64>(&mut client, embedded), 40);
    run(&mut client, &documents(41, 45));
    assert_eq!(one::<i64>(&mut client, embedded), 40);
    run(&mut client, "UPDATE kb.setting SET value = '{}' WHERE key = 'lsa'");
    run(&mut client, "CALL rag_refresh('kb', steps => '{embed}')");
    assert_eq!(one::<i64>(&mut client, embedded), 45);
    assert_eq!(calls(&mut client), 45);
    assert_eq!(misfits(&mut client), 0);
}

#[test]
fn beside_a_queue_the_words_alone_are_searched() {
    let database = Database::new();
    let mut heard = Heard::new(&database);
    let client = &mut heard.client;
    run(
        client,
        &format!(
            "SELECT rag_create('kb', 36, 'queue(4) + builtin:lsa'); {}",
            documents(1, 40)
        ),
    );
    run(client, "CALL rag_refresh('kb', steps => '{embed}')");
    run(
        client,
        "UPDATE kb.model_call SET status = 'done', response = to_jsonb(ARRAY[1, length(key), id, 2]) WHERE status = 'pending'",
    );
    run(client, "CALL rag_refresh('kb', steps => '{embed}')");
    assert_eq!(one::<i64>(client, "SELECT count(embedding) FROM kb.node"), 40);
    heard.said();
    let client = &mut heard.client;
    let found: String = one(client, "SELECT text FROM raptor_search('kb', 'zq8 turbine', k => 1)");
    assert!(found.contains("zq8"), "{found}");
    let said = heard.said();
    assert_eq!(
        said.matches("the query is embedded by builtin:lsa alone").count(),
        1,
        "{said}"
    );
    // In the order of the part that is there.
    let client = &mut heard.client;
    let differs = "SELECT count(*) FROM (SELECT text, row_number() OVER (ORDER BY score DESC) AS r, \
                     row_number() OVER (ORDER BY subvector(n.embedding, 5, 32) <=> subvector(rag_embed('kb', 'an owl of zq3'), 5, 32)) AS w \
                   FROM raptor_search('kb', 'an owl of zq3', k => 40) JOIN kb.node n USING (text)) t WHERE r <> w AND r < 10";
    assert_eq!(one::<i64>(client, differs), 0);
    run(
        client,
        "SELECT rag_create('q', 4, 'queue'); INSERT INTO q.document (body) VALUES ('An owl.')",
    );
    let refused = failure(client, "SELECT * FROM raptor_search('q', 'owl')");
    assert_eq!(
        refused.hint(),
        Some("Search with a vector of the same model: raptor_search takes one in place of the text.")
    );
}

#[test]
fn another_embedder_before_the_first_has_answered() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        &format!(
            "{COUNTING} SELECT rag_create('kb', 36, 'function:public.embed(4) + builtin:lsa'); {}",
            documents(1, 40)
        ),
    );
    assert_eq!((state(&mut client, "leaves"), state(&mut client, "version")), (40, 1));
    // What was learned in 32 dimensions is no use in 36.
    for (embedder, learned) in [("builtin:lsa", 40), ("builtin:hash", 0)] {
        run(&mut client, "UPDATE kb.node SET embedding = NULL");
        run(
            &mut client,
            &format!("SELECT rag_alter('kb', '{{\"embedder\": \"{embedder}\"}}')"),
        );
        run(&mut client, "SELECT raptor_build('kb')");
        assert_eq!(
            (state(&mut client, "leaves"), misfits(&mut client)),
            (learned, 0),
            "{embedder}"
        );
        let others = "SELECT count(*) FROM kb.term WHERE vector_dims(vector) <> 36";
        assert_eq!(one::<i64>(&mut client, others), 0, "{embedder}");
        let found: String = one(
            &mut client,
            "SELECT text FROM raptor_search('kb', 'zq8', k => 1, mode => 'leaf')",
        );
        assert!(found.contains("zq8"), "{embedder}: {found}");
    }
    assert_eq!(calls(&mut client), 0);
}

#[test]
fn embedder_text_is_checked() {
    let database = Database::new();
    let mut client = database.client();
    let refused = |client: &mut Client, dimensions: i32, embedder: &str| {
        let error = failure(
            client,
            &format!("SELECT rag_create('kb', {dimensions}, $e${embedder}$e$)"),
        );
        assert_eq!(error.code().code(), "22023", "{embedder}: {}", error.message());
        assert!(error.hint().is_some(), "{embedder}");
        error.message().to_owned()
    };
    for (embedder, message) in [
        ("", "unknown embedder \"\""),
        ("+", "unknown embedder \"\""),
        ("builtin:lsa +", "unknown embedder \"\""),
        ("builtin:lsa + builtin:lsa", "builtin:lsa is twice in the embedder"),
        (
            "builtin:lsa - builtin:hash",
            "unknown embedder \"builtin:lsa - builtin:hash\"",
        ),
        (
            "server:a + server:b",
            "an embedder has at most one part that is not built in",
        ),
        (
            "queue + function:a.b",
            "an embedder has at most one part that is not built in",
        ),
        ("0*builtin:lsa", "\"0\" is no weight"),
        ("-1*builtin:lsa", "\"-1\" is no weight"),
        ("NaN*builtin:lsa", "\"NaN\" is no weight"),
        ("1e400*builtin:lsa", "\"1e400\" is no weight"),
        ("x*builtin:lsa", "\"x\" is no weight"),
        ("builtin:lsa(0)", "a part of an embedder cannot have 0 dimensions"),
        (
            "builtin:lsa(99999999999999999999999)",
            "a part of an embedder cannot have 99999999999999999999999 dimensions",
        ),
        (
            "builtin:lsa(383)",
            "the embedder does not fit a column of 384 dimensions",
        ),
        (
            "builtin:lsa(384) + builtin:hash",
            "the embedder does not fit a column of 384 dimensions",
        ),
        (
            "builtin:lsa(200) + builtin:hash(200)",
            "the embedder does not fit a column of 384 dimensions",
        ),
        ("function: + builtin:lsa", "unknown embedder \"function:\""),
    ] {
        assert_eq!(refused(&mut client, 384, embedder), message, "{embedder}");
    }
    assert_eq!(
        refused(&mut client, 1, "builtin:lsa + builtin:hash"),
        "the embedder does not fit a column of 1 dimensions"
    );
    for (number, embedder) in [
        "builtin:lsa(384)",
        " 2 * builtin:lsa+builtin:hash ( 84 ) ",
        "builtin:lsa + builtin:hash",
        "1e-3*builtin:hash",
    ]
    .iter()
    .enumerate()
    {
        run(
            &mut client,
            &format!(
                "SELECT rag_create('kb{number}', 384, '{embedder}'); INSERT INTO kb{number}.document (body) VALUES ('Owls fly.')"
            ),
        );
        let found: Vec<String> = list(
            &mut client,
            &format!("SELECT text FROM raptor_search('kb{number}', 'owls')"),
        );
        assert_eq!(found, ["Owls fly."], "{embedder}");
    }
}

#[test]
fn a_part_of_another_size_is_told_its_own() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        &format!(
            "{COUNTING} SELECT rag_create('kb', 36, 'function:public.embed + builtin:lsa(30)'); {}",
            documents(1, 2)
        ),
    );
    let refused = client
        .batch_execute("CALL rag_refresh('kb', steps => '{embed}')")
        .unwrap_err();
    let message = "22000 function public.embed answers vectors of 4 dimensions, 6 are wanted";
    assert!(told(&refused).starts_with(message), "{}", told(&refused));
    let mock = mock(|_| {});
    run(&mut client, &create_server("m", &mock.base_url(), ""));
    run(
        &mut client,
        &format!(
            "SELECT rag_drop('kb'); SELECT rag_create('kb', 36, 'server:m + builtin:lsa(30)'); {}",
            documents(1, 2)
        ),
    );
    let refused = client
        .batch_execute("CALL rag_refresh('kb', steps => '{embed}')")
        .unwrap_err();
    let message = "22000 the embedder answers vectors of 8 dimensions, its part of collection \"kb\" has 6";
    assert!(told(&refused).starts_with(message), "{}", told(&refused));
    let hint = refused.as_db_error().and_then(|error| error.hint()).unwrap_or_default();
    let should = "Write server:m(8) in the embedder of a collection whose dimensions => 38";
    assert!(hint.starts_with(should), "{hint}");
}

#[test]
fn one_can_go_over_to_a_sum_and_back() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        &format!(
            "{COUNTING} SELECT rag_create('kb', 36, 'builtin:hash'); {}",
            documents(1, 40)
        ),
    );
    let search = "SELECT count(*) FROM raptor_search('kb', 'owl', k => 3)";
    for (embedder, leaves) in [
        ("builtin:lsa", 40),
        ("function:public.embed(4) + builtin:lsa", 40),
        ("2*function:public.embed(4) + builtin:lsa", 40),
        ("builtin:lsa(20) + builtin:hash", 40),
        ("builtin:hash", 0),
        ("builtin:hash + function:public.embed(4)", 0),
        ("function:public.embed(4) + builtin:lsa", 40),
    ] {
        run(
            &mut client,
            &format!("SELECT rag_alter('kb', '{{\"embedder\": \"{embedder}\"}}')"),
        );
        assert_eq!(one::<i64>(&mut client, search), 3);
        run(&mut client, "CALL rag_refresh('kb')");
        assert_eq!(misfits(&mut client), 0, "{embedder}");
        assert_eq!(state(&mut client, "leaves"), leaves, "{embedder}");
        let standing: String = one(
            &mut client,
            "SELECT value #>> '{}' FROM kb.setting WHERE key = 'embedder'",
        );
        assert_eq!(standing, embedder);
        assert_eq!(one::<i64>(&mut client, search), 3);
    }
    assert_eq!(
        one::<i64>(
            &mut client,
            "SELECT count(*) FROM kb.setting WHERE key = 'next_embedder'"
        ),
        0
    );
}

#[test]
fn a_server_is_a_part_like_any() {
    let database = Database::new();
    let mut client = database.client();
    let mock = mock(|options| options.dimensions = 8);
    collection(&mut client, &mock, "", ", 'server:m'");
    run(
        &mut client,
        &format!(
            "SELECT rag_drop('kb'); SELECT rag_create('kb', 40, 'server:m(8) + builtin:lsa'); {}",
            documents(1, 40)
        ),
    );
    run(&mut client, "CALL rag_refresh('kb', steps => '{embed}')");
    assert_eq!(misfits(&mut client), 0);
    let moved = "SELECT count(*) FROM kb.model_call WHERE role = 'embedder' AND status = 'done' AND embedding IS NULL";
    assert_eq!(one::<i64>(&mut client, moved), 40);
    let health: Vec<String> = list(
        &mut client,
        "SELECT part || ' ' || state || ' ' || detail FROM rag_health('kb') WHERE part = 'embedder'",
    );
    assert_eq!(health.len(), 2, "{health:?}");
    assert!(health[0].starts_with("embedder ok server:m: answers"), "{health:?}");
    assert!(
        health[1].starts_with("embedder ok builtin:lsa: version 1"),
        "{health:?}"
    );
    run(&mut client, "SELECT raptor_build('kb')");
    assert_eq!(misfits(&mut client), 0);
    let estimate: Vec<i64> = list(&mut client, "SELECT calls FROM rag_estimate('kb') WHERE step = 'embed'");
    assert_eq!(estimate, [0]);
}

#[test]
fn beyond_two_thousand_dimensions_the_sum_is_indexed_by_halves() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        &format!(
            "SELECT rag_create('kb', 2100, '0.6*builtin:lsa(1900) + 0.4*builtin:hash', settings => '{{\"exact_below\": 0}}'); {}",
            documents(1, 60)
        ),
    );
    run(&mut client, "CALL rag_refresh('kb', steps => '{embed}')");
    let index: String = one(&mut client, "SELECT pg_get_indexdef('kb.node_embedding'::regclass)");
    assert!(index.contains("halfvec(2100)"), "{index}");
    assert_eq!(misfits(&mut client), 0);
    let found: String = one(
        &mut client,
        "SELECT text FROM raptor_search('kb', 'zq8 turbine', k => 1)",
    );
    assert!(found.contains("zq8"), "{found}");
}
