\echo Use "CREATE EXTENSION pg_graphrag CASCADE" to load this file. \quit
