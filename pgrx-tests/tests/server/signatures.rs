//! The SQL is written by hand, so each C function in the catalogue is compared with its Rust signature.

use std::collections::BTreeMap;
use std::path::Path;

use pg_graphrag_tests::Database;
use quote::ToTokens;
use syn::{FnArg, GenericArgument, Item, PathArguments, ReturnType, Type};

/// (argument name, SQL type) of the inputs, what is returned, and the columns if it is a table.
#[derive(Debug, PartialEq)]
struct Signature {
    arguments: Vec<(String, String)>,
    result: String,
    columns: Vec<(String, String)>,
}

fn plain(tokens: impl ToTokens) -> String {
    tokens.to_token_stream().to_string().replace(' ', "")
}

fn sql_type(rust: &str) -> String {
    let rust = rust
        .strip_prefix("Option<")
        .and_then(|inner| inner.strip_suffix('>'))
        .unwrap_or(rust);
    match rust {
        "()" => "void",
        "&str" | "String" => "text",
        "i32" => "integer",
        "i64" => "bigint",
        "f64" => "double precision",
        "bool" => "boolean",
        "AnyNumeric" => "numeric",
        "JsonB" | "Json" => "jsonb",
        "Vector" => "vector",
        "pg_sys::Oid" => "regconfig",
        "Regclass" => "regclass",
        "Oid" => "oid",
        "TimestampWithTimeZone" => "timestamp with time zone",
        "Vec<String>" | "Vec<Option<String>>" => "text[]",
        "Vec<Option<f64>>" => "double precision[]",
        "Vec<i64>" | "Vec<Option<i64>>" => "bigint[]",
        other => panic!("a Rust type that this test does not know: {other}"),
    }
    .to_owned()
}

/// The type inside the outermost angle brackets, by position.
fn inside(ty: &Type, position: usize) -> Type {
    let Type::Path(path) = ty else {
        panic!("not a path: {}", plain(ty))
    };
    let PathArguments::AngleBracketed(arguments) = &path.path.segments.last().unwrap().arguments else {
        panic!("no type argument: {}", plain(ty))
    };
    let mut types = arguments.args.iter().filter_map(|a| {
        if let GenericArgument::Type(t) = a {
            Some(t)
        } else {
            None
        }
    });
    types.nth(position).cloned().unwrap()
}

/// `name!(a, i32)` as ("a", "integer").
fn column(ty: &Type) -> (String, String) {
    let Type::Macro(name) = ty else {
        panic!("not a column: {}", plain(ty))
    };
    let tokens = name.mac.tokens.to_string().replace(' ', "");
    let (column, rust) = tokens.split_once(',').unwrap();
    (column.to_owned(), sql_type(rust))
}

fn signature(function: &syn::ItemFn) -> Signature {
    let arguments = function
        .sig
        .inputs
        .iter()
        .map(|argument| {
            let FnArg::Typed(argument) = argument else {
                panic!("a method")
            };
            let rust = plain(&argument.ty);
            assert!(
                rust.starts_with("Option<"),
                "{}: a NULL argument must reach the function",
                function.sig.ident
            );
            (plain(&argument.pat).replace("r#", ""), sql_type(&rust))
        })
        .collect();
    let ReturnType::Type(_, result) = &function.sig.output else {
        panic!("no result")
    };
    let result = inside(result, 0);
    if plain(&result).starts_with("TableIterator<") {
        let Type::Tuple(columns) = inside(&result, 0) else {
            panic!("not a tuple")
        };
        return Signature {
            arguments,
            result: "table".into(),
            columns: columns.elems.iter().map(column).collect(),
        };
    }
    Signature {
        arguments,
        result: sql_type(&plain(&result)),
        columns: vec![],
    }
}

fn rust_functions(folder: &Path, found: &mut BTreeMap<String, Signature>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_functions(&path, found);
            continue;
        }
        for item in syn::parse_file(&std::fs::read_to_string(&path).unwrap()).unwrap().items {
            let Item::Fn(function) = item else { continue };
            let is = |name: &str| function.attrs.iter().any(|attribute| attribute.path().is_ident(name));
            let symbol = format!("{}_wrapper", function.sig.ident);
            if is("pg_extern") {
                found.insert(symbol, signature(&function));
            } else if is("pg_trigger") {
                found.insert(
                    symbol,
                    Signature {
                        arguments: vec![],
                        result: "trigger".into(),
                        columns: vec![],
                    },
                );
            }
        }
    }
}

#[test]
fn sql_and_rust_agree_on_every_function() {
    let mut expected = BTreeMap::new();
    rust_functions(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../src"), &mut expected);
    assert!(expected.len() > 15);

    let database = Database::new();
    let rows = database
        .client()
        .query(
            "SELECT p.prosrc, coalesce(p.proargnames, '{}'), coalesce(p.proargmodes::text[], '{}'), \
                    ARRAY(SELECT format_type(t, NULL) FROM unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) \
                          WITH ORDINALITY AS a (t, n) ORDER BY n), \
                    p.proretset, format_type(p.prorettype, NULL), p.proisstrict \
             FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e' \
             JOIN pg_extension e ON e.oid = d.refobjid JOIN pg_language l ON l.oid = p.prolang \
             WHERE e.extname = 'pg_graphrag' AND l.lanname = 'c'",
            &[],
        )
        .unwrap();
    let mut actual = BTreeMap::new();
    for row in rows {
        let symbol: String = row.get(0);
        let (names, modes, types): (Vec<String>, Vec<String>, Vec<String>) = (row.get(1), row.get(2), row.get(3));
        assert!(
            !row.get::<_, bool>(6),
            "{symbol} is STRICT: a NULL argument would be a NULL result and no error"
        );
        let all = names.into_iter().chain(std::iter::repeat(String::new())).zip(types);
        let (mut arguments, mut columns) = (vec![], vec![]);
        for (position, named) in all.enumerate() {
            if modes.get(position).is_none_or(|mode| mode == "i" || mode == "v") {
                arguments.push(named)
            } else {
                columns.push(named)
            }
        }
        let result = if row.get(4) { "table".to_owned() } else { row.get(5) };
        actual.insert(
            symbol,
            Signature {
                arguments,
                result,
                columns,
            },
        );
    }
    for (symbol, signature) in &expected {
        assert_eq!(Some(signature), actual.get(symbol), "{symbol}");
    }
    assert_eq!(
        expected.len(),
        actual.len(),
        "a function in SQL that Rust does not have"
    );
}

#[test]
fn every_object_has_a_comment() {
    let database = Database::new();
    let mut client = database.client();
    client.batch_execute("SELECT rag_create('kb')").unwrap();
    let rows = client
        .query(
            "SELECT 'function ' || p.oid::regprocedure FROM pg_proc p \
             JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e' \
             JOIN pg_extension e ON e.oid = d.refobjid \
             WHERE e.extname = 'pg_graphrag' AND obj_description(p.oid, 'pg_proc') IS NULL \
             UNION ALL SELECT 'relation ' || c.oid::regclass FROM pg_class c \
             WHERE (c.relname = 'rag_collections' OR c.relnamespace = 'kb'::regnamespace) AND c.relkind IN ('r', 'v') \
               AND obj_description(c.oid, 'pg_class') IS NULL",
            &[],
        )
        .unwrap();
    let missing: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert!(missing.is_empty(), "no comment on {missing:?}");
}

#[test]
fn the_extension_installs_into_any_schema_and_leaves_nothing_behind() {
    let database = Database::empty();
    let mut client = database.client();
    let objects = "SELECT count(*) FROM pg_depend WHERE deptype = 'e'";
    let before: i64 = client.query_one(objects, &[]).unwrap().get(0);
    client
        .batch_execute("CREATE SCHEMA tools; CREATE EXTENSION vector; CREATE EXTENSION pg_graphrag SCHEMA tools")
        .unwrap();
    client.batch_execute("SELECT tools.rag_create('kb')").unwrap();
    let refused = client.batch_execute("DROP EXTENSION pg_graphrag").unwrap_err();
    assert_eq!(
        refused.code().unwrap().code(),
        "2BP01",
        "a collection's triggers need the extension"
    );
    client
        .batch_execute("SELECT tools.rag_drop('kb'); DROP EXTENSION pg_graphrag; DROP EXTENSION vector")
        .unwrap();
    let after: i64 = client.query_one(objects, &[]).unwrap().get(0);
    assert_eq!(before, after);
}
