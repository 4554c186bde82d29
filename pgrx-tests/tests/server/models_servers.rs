//! Servers of models: the options of `graphrag_model`, who may do what with them, and who can see a key.

use pg_graphrag_tests::Database;

use crate::support::{failure, list, one, refused, run};

fn hint(error: &postgres::error::DbError) -> &str {
    error.hint().unwrap_or_default()
}

#[test]
fn models_server_options_are_kept() {
    let database = Database::new();
    let mut client = database.client();
    run(
        &mut client,
        "CREATE SERVER small FOREIGN DATA WRAPPER graphrag_model OPTIONS (base_url 'http://localhost:11434/v1/'); \
         CREATE SERVER large FOREIGN DATA WRAPPER graphrag_model OPTIONS ( \
           api 'anthropic', base_url 'https://[2001:db8::1]:8443/a/b', chat_model 'c 1', embedding_model 'e', rerank_model 'r', \
           structured_output 'none', api_key_file '/run/key', concurrency '256', requests_per_minute '1', timeout_ms '100', \
           retries '0', batch_size '2048', max_tokens '16', temperature '0.7', embedding_dimensions '16000', \
           price_in '0', price_out '0.15', price_embedding '12'); \
         ALTER SERVER large OPTIONS (SET temperature '2', DROP api_key_file, ADD api_key_env '_KEY_1'); \
         ALTER SERVER small OPTIONS (SET base_url 'https://api.example.com')",
    );
    let options: Vec<String> = one(
        &mut client,
        "SELECT srvoptions FROM pg_foreign_server WHERE srvname = 'large'",
    );
    assert_eq!(options.len(), 18);
    assert!(options.contains(&"temperature=2".to_owned()), "{options:?}");
}

#[test]
fn models_server_options_that_cannot_be_are_refused() {
    let database = Database::new();
    let mut client = database.client();
    let table = "
        CREATE SERVER s FOREIGN DATA WRAPPER graphrag_model --> HV002 option \"base_url\" is required
        CREATE SERVER s FOREIGN DATA WRAPPER graphrag_model OPTIONS (chat_model 'x') --> HV002 option \"base_url\" is required
        SERVER (base_url '') --> 22023 option \"base_url\" must not be empty
        SERVER (base_url 'ftp://h') --> 22023 option \"base_url\" must start with http:// or https://
        SERVER (base_url 'h/v1') --> 22023 option \"base_url\" must start with http:// or https://
        SERVER (base_url 'https://') --> 22023 option \"base_url\" needs a host
        SERVER (base_url 'https:///v1') --> 22023 option \"base_url\" needs a host
        SERVER (base_url 'https://:80/v1') --> 22023 option \"base_url\" needs a host
        SERVER (base_url 'https://u:p@h/v1') --> 22023 option \"base_url\" must have no user and no password
        SERVER (base_url 'https://u@h') --> 22023 option \"base_url\" must have no user and no password
        SERVER (base_url 'https://h/v1?a=b') --> 22023 option \"base_url\" must have no query and no fragment
        SERVER (base_url 'https://h#a') --> 22023 option \"base_url\" must have no query and no fragment
        SERVER (base_url 'https://h/v 1') --> 22023 option \"base_url\" holds characters that an address cannot have
        SERVER (base_url E'https://h\\n/') --> 22023 option \"base_url\" holds characters that an address cannot have
        SERVER (base_url 'https://h\\v1') --> 22023 option \"base_url\" holds characters that an address cannot have
        SERVER (base_url 'https://hö/') --> 22023 option \"base_url\" holds characters that an address cannot have
        SERVER (base_url 'https://h%41/') --> 22023 option \"base_url\" has a host that cannot be
        SERVER (base_url 'https://[::1/') --> 22023 option \"base_url\" has a host that cannot be
        SERVER (base_url 'https://[::1]x/') --> 22023 option \"base_url\" has a port that cannot be
        SERVER (base_url 'https://h:0') --> 22023 option \"base_url\" has a port that cannot be
        SERVER (base_url 'https://h:') --> 22023 option \"base_url\" has a port that cannot be
        SERVER (base_url 'https://h:80:90') --> 22023 option \"base_url\" has a port that cannot be
        SERVER (base_url 'https://h:65536') --> 22023 option \"base_url\" has a port that cannot be
        OPTION model 'x' --> HV00D unknown option \"model\"
        OPTION api_key 'x' --> HV00D unknown option \"api_key\"
        OPTION \"API\" 'openai' --> HV00D unknown option \"API\"
        OPTION api 'OpenAI' --> 22023 option \"api\" must be one of 'openai', 'anthropic'
        OPTION structured_output 'yes' --> 22023 option \"structured_output\" must be one of 'json_schema', 'json_object', 'none'
        OPTION chat_model '' --> 22023 option \"chat_model\" must not be empty
        OPTION embedding_model ' ' --> 22023 option \"embedding_model\" must not be empty
        OPTION concurrency '0' --> 22023 option \"concurrency\" must be a whole number between 1 and 256
        OPTION concurrency '257' --> 22023 option \"concurrency\" must be a whole number between 1 and 256
        OPTION concurrency 'many' --> 22023 option \"concurrency\" must be a whole number between 1 and 256
        OPTION requests_per_minute '1000001' --> 22023 option \"requests_per_minute\" must be a whole number between 1 and 1000000
        OPTION timeout_ms '99' --> 22023 option \"timeout_ms\" must be a whole number between 100 and 3600000
        OPTION timeout_ms '99999999999999999999' --> 22023 option \"timeout_ms\" must be a whole number between 100 and 3600000
        OPTION retries '-1' --> 22023 option \"retries\" must be a whole number between 0 and 20
        OPTION batch_size '2.5' --> 22023 option \"batch_size\" must be a whole number between 1 and 2048
        OPTION max_tokens '15' --> 22023 option \"max_tokens\" must be a whole number between 16 and 200000
        OPTION temperature '2.1' --> 22023 option \"temperature\" must be a number between 0 and 2
        OPTION temperature 'NaN' --> 22023 option \"temperature\" must be a number between 0 and 2
        OPTION embedding_dimensions '16001' --> 22023 option \"embedding_dimensions\" must be a whole number between 1 and 16000
        OPTION price_in '-1' --> 22023 option \"price_in\" must be a number from 0 on, such as 0.15: the price of a million tokens
        OPTION price_out 'NaN' --> 22023 option \"price_out\" must be a number from 0 on, such as 0.15: the price of a million tokens
        OPTION price_embedding '1e3' --> 22023 option \"price_embedding\" must be a number from 0 on, such as 0.15: the price of a million tokens
        OPTION api_key_file 'key' --> 22023 option \"api_key_file\" must be an absolute path
        OPTION api_key_env 'A=B' --> 22023 option \"api_key_env\" must be the name of an environment variable
        OPTION api_key_env '1' --> 22023 option \"api_key_env\" must be the name of an environment variable
        OPTION api_key_file '/k', api_key_env 'K' --> 22023 api_key_file and api_key_env exclude each other
        OPTION api 'openai', api 'openai' --> 42710 option \"api\" provided more than once
        ALTER FOREIGN DATA WRAPPER graphrag_model OPTIONS (ADD api 'openai') --> HV00D unknown option \"api\"
        ";
    let options: String = table
        .lines()
        .map(|line| {
            let line = line.trim_start();
            let create = "CREATE SERVER s FOREIGN DATA WRAPPER graphrag_model OPTIONS";
            match (line.strip_prefix("OPTION "), line.strip_prefix("SERVER ")) {
                (Some(rest), _) => {
                    let (option, expected) = rest.split_once(" --> ").expect("a row");
                    format!("{create} (base_url 'https://h', {option}) --> {expected}\n")
                }
                (_, Some(rest)) => format!("{create} {rest}\n"),
                _ => format!("{line}\n"),
            }
        })
        .collect();
    refused(&mut client, &options);

    let create = "CREATE SERVER s FOREIGN DATA WRAPPER graphrag_model OPTIONS (base_url 'https://h'";
    let error = failure(&mut client, &format!("{create}, model 'x')"));
    assert!(
        hint(&error).starts_with("Options of a server are api, base_url, chat_model"),
        "{error:?}"
    );
    let error = failure(&mut client, &format!("{create}, api_key 'secret-1')"));
    assert!(hint(&error).contains("CREATE USER MAPPING"), "{error:?}");
    assert!(!format!("{error:?}").contains("secret-1"), "{error:?}");
    let error = failure(
        &mut client,
        "CREATE SERVER s FOREIGN DATA WRAPPER graphrag_model OPTIONS (base_url 'https://u:secret-2@h')",
    );
    assert!(!format!("{error:?}").contains("secret-2"), "{error:?}");

    run(&mut client, &format!("{create}, retries '1')"));
    refused(
        &mut client,
        "ALTER SERVER s OPTIONS (DROP base_url) --> HV002 option \"base_url\" is required
         ALTER SERVER s OPTIONS (SET retries '21') --> 22023 option \"retries\" must be a whole number between 0 and 20
         ALTER SERVER s OPTIONS (ADD speed '1') --> HV00D unknown option \"speed\"
         CREATE FOREIGN TABLE t (a int) SERVER s --> 42809 servers of graphrag_model have no tables
         CREATE FOREIGN TABLE t (a int) SERVER s OPTIONS (x '1') --> 42809 servers of graphrag_model have no tables
         CREATE USER MAPPING FOR PUBLIC SERVER s OPTIONS (user 'x') --> HV00D unknown option \"user\"
         CREATE USER MAPPING FOR PUBLIC SERVER s OPTIONS (api_key '') --> 22023 api_key cannot stand in a header
         CREATE USER MAPPING FOR PUBLIC SERVER s OPTIONS (api_key 'sécret') --> 22023 api_key cannot stand in a header
         CREATE USER MAPPING FOR PUBLIC SERVER s OPTIONS (api_key E'a\\r\\nX: y') --> 22023 api_key cannot stand in a header
         SELECT _model_options(NULL, 1417) --> 22004 options must not be null
         SELECT _model_options('{}', NULL) --> 22004 catalog must not be null",
    );
    let error = failure(
        &mut client,
        "CREATE USER MAPPING FOR PUBLIC SERVER s OPTIONS (api_key E'secret-3\\x01')",
    );
    assert!(!format!("{error:?}").contains("secret-3"), "{error:?}");
}

#[test]
fn models_servers_are_made_by_superusers() {
    let database = Database::new();
    let (role, heir) = (database.role("maker"), database.role("heir"));
    let mut admin = database.client();
    let mut client = database.client_as(&role);
    let create = "CREATE SERVER mine FOREIGN DATA WRAPPER graphrag_model OPTIONS (base_url 'https://h')";
    refused(
        &mut client,
        &format!("{create} --> 42501 permission denied for foreign-data wrapper graphrag_model"),
    );
    // Whoever is handed a server cannot send the machine's key elsewhere.
    run(
        &mut admin,
        &format!(
            "CREATE SERVER filed FOREIGN DATA WRAPPER graphrag_model OPTIONS (base_url 'https://h', api_key_file '/run/key'); \
             CREATE SERVER plain FOREIGN DATA WRAPPER graphrag_model OPTIONS (base_url 'https://h'); \
             GRANT USAGE ON FOREIGN DATA WRAPPER graphrag_model TO {heir}; \
             ALTER SERVER filed OWNER TO {heir}; ALTER SERVER plain OWNER TO {heir}"
        ),
    );
    let mut client = database.client_as(&heir);
    run(&mut client, "ALTER SERVER plain OPTIONS (SET base_url 'https://other')");
    let message = "42501 only a superuser may change a server with api_key_file or api_key_env";
    for change in [
        "ALTER SERVER filed OPTIONS (SET base_url 'https://other')",
        "ALTER SERVER plain OPTIONS (ADD api_key_env 'PATH')",
        "ALTER SERVER plain OPTIONS (ADD api_key_file '/etc/passwd')",
        "CREATE SERVER third FOREIGN DATA WRAPPER graphrag_model OPTIONS (base_url 'https://h', api_key_env 'PATH')",
    ] {
        refused(&mut client, &format!("{change} --> {message}"));
    }
    run(&mut client, "ALTER SERVER filed OPTIONS (DROP api_key_file)");
    run(
        &mut admin,
        &format!("REVOKE USAGE ON FOREIGN DATA WRAPPER graphrag_model FROM {heir}"),
    );
    run(&mut admin, &format!("DROP OWNED BY {heir}"));
}

#[test]
fn models_keys_are_seen_by_few() {
    let database = Database::new();
    let (owner, user, stranger) = (database.role("owner"), database.role("user"), database.role("stranger"));
    let mut admin = database.client();
    run(
        &mut admin,
        &format!(
            "CREATE SERVER s FOREIGN DATA WRAPPER graphrag_model OPTIONS (base_url 'https://h'); \
             GRANT USAGE ON FOREIGN SERVER s TO {user}, {stranger}; ALTER SERVER s OWNER TO postgres; \
             CREATE USER MAPPING FOR PUBLIC SERVER s OPTIONS (api_key 'of-all'); \
             CREATE USER MAPPING FOR {owner} SERVER s OPTIONS (api_key 'of-owner')"
        ),
    );
    // A role with USAGE brings a key of its own.
    let mut client = database.client_as(&user);
    run(
        &mut client,
        "CREATE USER MAPPING FOR CURRENT_USER SERVER s OPTIONS (api_key 'of-user')",
    );
    let shown = "SELECT array_to_string(umoptions, ',') FROM pg_user_mappings WHERE umoptions IS NOT NULL ORDER BY 1";
    assert_eq!(list::<String>(&mut client, shown), ["api_key=of-user"]);
    assert_eq!(list::<String>(&mut database.client_as(&stranger), shown), [""; 0]);
    assert_eq!(
        list::<String>(&mut admin, shown),
        ["api_key=of-all", "api_key=of-owner", "api_key=of-user"]
    );
    refused(
        &mut client,
        "SELECT * FROM pg_user_mapping --> 42501 permission denied for table pg_user_mapping",
    );
    refused(
        &mut database.client_as(&owner),
        "ALTER USER MAPPING FOR CURRENT_USER SERVER s OPTIONS (SET api_key 'x') --> 42501 permission denied for foreign server s",
    );
    run(&mut admin, "DROP SERVER s CASCADE");
}

#[test]
fn models_servers_are_dumped_and_restored() {
    let (database, other) = (Database::new(), Database::empty());
    let mut admin = database.client();
    run(
        &mut admin,
        "CREATE SERVER \"my s\" FOREIGN DATA WRAPPER graphrag_model \
           OPTIONS (base_url 'https://h/v1', chat_model 'it''s', api_key_env 'KEY', price_in '0.150'); \
         CREATE USER MAPPING FOR PUBLIC SERVER \"my s\" OPTIONS (api_key 'k=1')",
    );
    let dump = database.run("pg_dump", &[]);
    assert!(!dump.contains("CREATE FOREIGN DATA WRAPPER"), "the extension makes it");
    let output = other.psql(&dump);
    assert!(!output.contains("ERROR"), "{output}");
    let state = "SELECT srvname || ' ' || ARRAY(SELECT unnest(srvoptions) ORDER BY 1)::text || ' ' || \
                 (SELECT umoptions::text FROM pg_user_mappings m WHERE m.srvid = s.oid) FROM pg_foreign_server s";
    assert_eq!(
        list::<String>(&mut admin, state),
        list::<String>(&mut other.client(), state)
    );
    // It goes with the extension only by CASCADE.
    let error = failure(&mut admin, "DROP EXTENSION pg_graphrag");
    assert_eq!(error.code().code(), "2BP01");
    run(&mut admin, "DROP EXTENSION pg_graphrag CASCADE");
    assert_eq!(one::<i64>(&mut admin, "SELECT count(*) FROM pg_foreign_server"), 0);
}
