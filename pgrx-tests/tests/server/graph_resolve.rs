//! graph_resolve: what may be one is proposed, what is not is not, and merging a proposal makes it go.

use pg_graphrag_tests::Database;

use crate::support::{failure, list, run};

const PROPOSED: &str =
    "SELECT concat_ws('|', keep, alias, round(score::numeric, 2), reason, shared) FROM graph_resolve('kb'";

#[test]
fn proposals_have_reasons_and_can_be_taken() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "SELECT rag_create('kb'); SELECT graph_add('kb', s, p, o) FROM (VALUES \
           ('Dr. Ada Brandt', 'leads', 'Orchard College'), ('Ada Brandt', 'leads', 'Orchard College'), ('Ada Brandt', 'met', 'Emil Stark'), \
           ('Müller Labs', 'made', 'Ferry 1'), ('Muller Labs', 'made', 'Ferry 2'), ('World War I', 'before', 'World War II'), \
           ('SR-2023-052', 'cites', 'SR-2023-053'), ('North Mill', 'near', 'South Mill')) v (s, p, o)",
    );
    let all: Vec<String> = list(&mut client, &format!("{PROPOSED})"));
    assert!(
        all.iter().any(|line| line.starts_with("Ada Brandt|Dr. Ada Brandt|")),
        "{all:#?}"
    );
    assert!(
        all.iter()
            .any(|line| line.contains("Müller Labs") && line.contains("Muller Labs")),
        "{all:#?}"
    );
    for never in ["World War", "SR-2023", "Mill", "Ferry"] {
        assert!(!all.iter().any(|line| line.contains(never)), "{never}: {all:#?}");
    }
    // Shared neighbours make up for a name that says less.
    assert!(all.iter().any(|line| line.contains("shared neighbours|1")), "{all:#?}");
    assert_eq!(
        list::<String>(&mut client, &format!("{PROPOSED}, 1)")),
        Vec::<String>::new()
    );
    run(
        &mut client,
        "SELECT graph_merge('kb', keep, alias) FROM graph_resolve('kb')",
    );
    assert_eq!(
        list::<String>(&mut client, &format!("{PROPOSED})")),
        Vec::<String>::new()
    );
    for threshold in ["0.49", "1.1", "'NaN'"] {
        let error = failure(&mut client, &format!("SELECT graph_resolve('kb', {threshold})"));
        assert_eq!(error.code().code(), "22023");
    }
}
