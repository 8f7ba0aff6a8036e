"""Past one core and past memory: Parquet in and out, and the same counts on DuckDB, Ray and Spark."""
