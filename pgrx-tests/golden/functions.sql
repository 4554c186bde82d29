-- What \df and \dv would list, one argument a line.
CREATE EXTENSION pg_graphrag CASCADE;
SELECT p.proname AS name,
       replace(pg_get_function_arguments(p.oid), ', ', E',\n') AS arguments,
       CASE p.prokind WHEN 'p' THEN 'procedure' ELSE replace(pg_get_function_result(p.oid), ', ', E',\n') END AS result,
       CASE p.provolatile WHEN 'i' THEN 'immutable' WHEN 's' THEN 'stable' ELSE 'volatile' END AS volatility
FROM pg_proc p
JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
JOIN pg_extension e ON e.oid = d.refobjid
WHERE e.extname = 'pg_graphrag' AND p.proname !~ '^_'
ORDER BY 1, 2;
\d rag_collections
\dconfig+ graphrag.*
