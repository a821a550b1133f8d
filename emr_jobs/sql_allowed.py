"""What a user's SQL may name. Nothing is refused by a list of bad names: what is not here is not
allowed. The reasons are for people who wrote something that many databases have.
"""

from __future__ import annotations

_AGGREGATES = """
any approx_count_distinct approx_percentile array_agg avg bit_and bit_or bit_xor
bool_and bool_or collect_list collect_set corr count count_if covar_pop covar_samp every grouping
grouping_id kurtosis listagg max max_by mean median min min_by mode percentile percentile_approx
percentile_cont percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope
regr_sxx regr_sxy regr_syy skewness some std stddev stddev_pop stddev_samp string_agg sum try_avg
try_sum var_pop var_samp variance
"""
_WINDOWS = "cume_dist dense_rank lag lead ntile percent_rank rank row_number"
_CONDITIONS = """
between case coalesce equal_null greatest if ifnull isnan isnotnull isnull least nanvl nullif
nullifzero nvl nvl2 when zeroifnull
"""
_NUMBERS = """
abs acos acosh asin asinh atan atan2 atanh bin bit_count bit_get bround cbrt ceil ceiling conv cos
cosh cot csc degrees div e exp expm1 factorial floor getbit hex hypot ln log log10 log1p log2 mod
negative pi pmod positive pow power radians rint round sec shiftleft shiftright shiftrightunsigned
sign signum sin sinh sqrt tan tanh try_add try_divide try_mod try_multiply try_subtract unhex
width_bucket
"""
_TEXT = """
ascii base64 bit_length btrim char char_length character_length chr concat concat_ws contains decode
elt encode endswith find_in_set format_number format_string initcap instr lcase left len length
levenshtein like locate lower lpad ltrim mask octet_length overlay position printf regexp
regexp_count regexp_extract regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr
repeat replace reverse right rlike ilike rpad rtrim soundex space split split_part startswith substr
substring substring_index to_binary to_char to_number to_varchar translate trim try_to_binary
try_to_number ucase unbase64 upper parse_url try_parse_url url_decode try_url_decode url_encode
"""
_HASHES = "crc32 hash md5 sha sha1 sha2 xxhash64"
_TIMES = """
add_months date date_add date_diff date_format date_from_unix_date date_part date_sub date_trunc
dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear extract from_unixtime
from_utc_timestamp hour last_day make_date make_dt_interval make_interval make_timestamp
make_ym_interval minute month monthname months_between next_day quarter second
timestamp timestamp_micros timestamp_millis timestamp_seconds to_date to_timestamp to_utc_timestamp
trunc try_make_interval try_make_timestamp try_to_date try_to_timestamp unix_date unix_micros
unix_millis unix_seconds weekday weekofyear year
"""
_NESTED = """
array array_append array_compact array_contains array_distinct array_except array_insert
array_intersect array_join array_max array_min array_position array_prepend array_remove
array_repeat array_size array_sort array_union arrays_overlap arrays_zip cardinality element_at
flatten get map map_concat map_contains_key map_entries map_from_arrays map_from_entries map_keys
map_values named_struct sequence size slice sort_array str_to_map struct try_element_at
aggregate exists filter forall map_filter map_zip_with reduce transform transform_keys
transform_values zip_with
"""
_JSON = """
from_json get_json_object json_array_length json_object_keys to_json
"""
_CASTS = """
bigint binary boolean cast decimal double float int smallint string tinyint try_cast typeof
"""
_CHECKS = "assert_true raise_error"

FUNCTIONS: frozenset[str] = frozenset(
    " ".join(
        (
            _AGGREGATES,
            _WINDOWS,
            _CONDITIONS,
            _NUMBERS,
            _TEXT,
            _HASHES,
            _TIMES,
            _NESTED,
            _JSON,
            _CASTS,
            _CHECKS,
        )
    ).split()
)

TIME_FUNCTIONS: frozenset[str] = frozenset(_TIMES.split())

IN_WINDOWS_ONLY: frozenset[str] = frozenset(
    ["first", "first_value", "last", "last_value", "nth_value"]
)
"""Without an order each run may give another row."""

WITH_ORDER_ONLY: frozenset[str] = frozenset(["listagg", "mode", "string_agg"])
"""Without WITHIN GROUP (ORDER BY …) they give one of several results."""

GENERATORS: frozenset[str] = frozenset(
    [
        "explode",
        "explode_outer",
        "inline",
        "inline_outer",
        "json_tuple",
        "posexplode",
        "posexplode_outer",
        "stack",
    ]
)
"""One row becomes many: in the list, in a LATERAL VIEW and in FROM."""

TABLE_FUNCTIONS: frozenset[str] = frozenset(["range"])

HINTS: frozenset[str] = frozenset(
    ["broadcast", "broadcastjoin", "mapjoin", "merge", "mergejoin", "shuffle_merge", "shuffle_hash"]
)

NAMES_THAT_ARE_CALLS: frozenset[str] = frozenset(
    [
        "current_catalog",
        "current_database",
        "current_date",
        "current_schema",
        "current_time",
        "current_timestamp",
        "current_timezone",
        "current_user",
        "grouping__id",
        "localtime",
        "localtimestamp",
        "now",
        "session_user",
        "user",
    ]
)
"""A bare name of these, where no column has it, is a call."""

_CLOCK = "it differs from run to run: take the time from a column"
_CHANCE = "it differs from run to run: take a hash of a column, such as xxhash64(x)"
_JAVA = "it calls code of the Java runtime"
_PLACE = "it shows where the data lies, which is another place after each rewrite"
_SESSION = "it tells about the session and not about the data"
_ORDER = (
    "without an order it may give another value in each run: use it OVER (… ORDER BY …), or "
    "min_by and max_by"
)

REASONS: dict[str, str] = {
    **dict.fromkeys(("reflect", "java_method", "try_reflect"), _JAVA),
    **dict.fromkeys(
        [
            "current_date",
            "current_timestamp",
            "current_time",
            "now",
            "localtimestamp",
            "localtime",
            "curdate",
            "unix_timestamp",
            "to_unix_timestamp",
        ],
        _CLOCK,
    ),
    **dict.fromkeys(
        [
            "rand",
            "random",
            "randn",
            "randstr",
            "uniform",
            "uuid",
            "shuffle",
            "monotonically_increasing_id",
            "spark_partition_id",
        ],
        _CHANCE,
    ),
    **dict.fromkeys(
        ["input_file_name", "input_file_block_start", "input_file_block_length"], _PLACE
    ),
    **dict.fromkeys(
        [
            "current_user",
            "user",
            "session_user",
            "current_catalog",
            "current_database",
            "current_schema",
            "current_timezone",
            "version",
            "collations",
            "sql_keywords",
        ],
        _SESSION,
    ),
    **dict.fromkeys((*IN_WINDOWS_ONLY, "any_value"), _ORDER),
    **dict.fromkeys(
        [
            "from_protobuf",
            "to_protobuf",
            "from_avro",
            "to_avro",
            "from_xml",
            "from_csv",
            "schema_of_csv",
        ],
        "it may read files: decode before the data comes here",
    ),
    **dict.fromkeys(
        ["aes_encrypt", "aes_decrypt", "try_aes_decrypt"], "a key would be part of the DAG file"
    ),
    **dict.fromkeys(
        [
            "read_files",
            "read_csv",
            "read_json",
            "read_parquet",
            "parquet",
            "csv",
            "json",
            "text",
            "orc",
        ],
        "files are not read by name: add the data as an input",
    ),
    **dict.fromkeys(["xpath", "xpath_string", "xpath_int"], "XML is not read here"),
}
