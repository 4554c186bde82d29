//! What a person is told when models do not do what they should.

use graphrag_mock::{Fault, Faults};
use pg_graphrag_tests::Database;

use crate::models_support::{Heard, collection, documents, mock};
use crate::support::{failure, list, one, run};

#[test]
fn models_with_which_nothing_works_end_the_run_and_take_no_attempt() {
    let database = Database::new();
    let mock = mock(|options| options.faults = Faults::Always(Fault::Status(400)));
    let mut heard = Heard::new(&database);
    collection(
        &mut heard.client,
        &mock,
        ", concurrency '2'",
        ", extractor => 'server:m'",
    );
    run(&mut heard.client, &documents(60));
    let error = failure(&mut heard.client, "CALL rag_refresh('kb', steps => '{extract}')");
    assert_eq!(error.code().code(), "38000");
    assert!(error.message().starts_with("extract: the first ") && error.message().ends_with(" calls have all failed"));
    assert_eq!(
        error.detail(),
        Some("Most often: Status 400 (context_length_exceeded).")
    );
    let asked = mock.log().len();
    assert!((20..40).contains(&asked), "{asked} of 60 were asked");
    let rows = "SELECT DISTINCT status || ' ' || attempts FROM kb.model_call";
    assert_eq!(list::<String>(&mut heard.client, rows), ["pending 0"]);

    mock.set_faults(Faults::None);
    run(&mut heard.client, "CALL rag_refresh('kb')");
    let rows = "SELECT status || ' ' || attempts || ' ' || count(*) FROM kb.model_call GROUP BY status, attempts";
    assert_eq!(list::<String>(&mut heard.client, rows), ["done 1 60"]);

    // A few that fail alone are theirs, and the reason is said.
    mock.set_faults(Faults::Always(Fault::Garbage));
    run(
        &mut heard.client,
        "INSERT INTO kb.document (body) VALUES ('Ada met Bob in Cork.')",
    );
    heard.said();
    run(&mut heard.client, "CALL rag_refresh('kb')");
    let said = heard.said();
    assert!(
        said.contains("extract: 1 block, 1 call, 1 failed") && said.contains("The reply is not JSON"),
        "{said}"
    );
    for _ in 1..3 {
        run(&mut heard.client, "CALL rag_refresh('kb')");
    }
    heard.said();
    run(&mut heard.client, "CALL rag_refresh('kb')");
    let said = heard.said();
    assert!(said.contains("SET attempts = 0"), "{said}");
}

#[test]
fn models_get_what_a_step_needs_before_it() {
    let database = Database::new();
    let mock = mock(|_| {});
    let mut heard = Heard::new(&database);
    collection(
        &mut heard.client,
        &mock,
        "",
        ", embedder => 'server:m', summarizer => 'server:m'",
    );
    run(&mut heard.client, &documents(4));
    run(&mut heard.client, "SELECT * FROM raptor_search('kb', 'Ada')");
    assert!(heard.said().contains("no leaf has a vector yet"));
    run(&mut heard.client, "CALL rag_refresh('kb', steps => '{tree}')");
    let said = heard.said();
    assert!(
        said.contains("tree: left for later, 4 leaves wait for a vector"),
        "{said}"
    );
    assert_eq!(
        mock.log()
            .iter()
            .filter(|seen| seen.path.ends_with("/chat/completions"))
            .count(),
        0
    );
    run(&mut heard.client, "CALL rag_refresh('kb', steps => '{extract}')");
    run(&mut heard.client, "CALL rag_refresh('kb', steps => '{reports}')");
    let reports = "SELECT count(*) FROM kb.community WHERE size > 1 AND text IS NOT NULL";
    assert!(one::<i64>(&mut heard.client, reports) > 0);
}

#[test]
fn models_whose_vectors_do_not_fit_are_seen_by_health() {
    let database = Database::new();
    let (good, five) = (mock(|_| {}), mock(|options| options.dimensions = 5));
    let mut client = database.client();
    collection(&mut client, &good, "", ", embedder => 'server:m'");
    run(&mut client, &documents(4));
    let embedder = |client: &mut postgres::Client| {
        one::<String>(
            client,
            "SELECT state || ' ' || detail FROM rag_health('kb') WHERE part = 'embedder'",
        )
    };
    assert_eq!(embedder(&mut client), "ok server:m: answers, with the model embed");
    run(&mut client, "CALL rag_refresh('kb')");
    run(&mut client, "ALTER SERVER m OPTIONS (SET embedding_model 'other')");
    let state = embedder(&mut client);
    assert!(
        state.starts_with("failed server:m: the vectors were made by server:m embed"),
        "{state}"
    );
    run(
        &mut client,
        &format!(
            "ALTER SERVER m OPTIONS (SET embedding_model 'embed', SET base_url '{}')",
            five.base_url()
        ),
    );
    let state = embedder(&mut client);
    assert_eq!(
        state,
        "failed server:m: the embedder answers vectors of 5 dimensions, collection \"kb\" has 8"
    );
}
