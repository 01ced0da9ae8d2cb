//! An answer as a Parquet file: one row group, uncompressed, every column optional.

use std::sync::Arc;

use parquet::{
    basic::{LogicalType, Repetition, Type as Physical},
    data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type},
    errors::ParquetError,
    file::{
        metadata::KeyValue,
        properties::WriterProperties,
        writer::{SerializedColumnWriter, SerializedFileWriter},
    },
    schema::types::Type,
};
use sweep_job::{Unit, Value};

use super::Answer;

/// Metadata key of the units of the columns, as JSON by the columns' names.
const UNITS: &str = "sweep.units";

pub(super) fn file(answer: &Answer) -> Result<Vec<u8>, ParquetError> {
    let kinds: Vec<Physical> = (0..answer.columns.len()).map(|index| kind(answer, index)).collect();
    let fields = answer.columns.iter().zip(&kinds).map(|(heading, kind)| {
        let field = Type::primitive_type_builder(&heading.name, *kind).with_repetition(Repetition::OPTIONAL);
        let text = (*kind == Physical::BYTE_ARRAY).then_some(LogicalType::String);
        field.with_logical_type(text).build().map(Arc::new)
    });
    let fields = fields.collect::<Result<Vec<_>, _>>()?;
    let schema = Arc::new(Type::group_type_builder("records").with_fields(fields).build()?);
    let units: serde_json::Map<String, serde_json::Value> = answer
        .columns
        .iter()
        .filter(|heading| heading.unit != Unit::One)
        .map(|heading| (heading.name.clone(), serde_json::to_value(heading.unit).unwrap_or_default()))
        .collect();
    let units = KeyValue::new(UNITS.to_owned(), serde_json::Value::Object(units).to_string());
    let properties = WriterProperties::builder().set_key_value_metadata(Some(vec![units])).build();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    let mut index = 0;
    while let Some(column) = group.next_column()? {
        let values = answer.rows.iter().map(|row| &row[index]);
        write(column, kinds[index], values)?;
        index += 1;
    }
    group.close()?;
    writer.into_inner()
}

/// The narrowest type that holds all values of a column.
fn kind(answer: &Answer, index: usize) -> Physical {
    let mut values = answer.rows.iter().map(|row| &row[index]).filter(|value| **value != Value::Null).peekable();
    if values.peek().is_none() {
        return Physical::BYTE_ARRAY;
    }
    let all_values = |predicate: fn(&Value) -> bool| {
        answer.rows.iter().map(|row| &row[index]).all(|value| *value == Value::Null || predicate(value))
    };
    if all_values(|value| matches!(value, Value::Bool(_))) {
        Physical::BOOLEAN
    } else if all_values(|value| matches!(value, Value::Int(_))) {
        Physical::INT64
    } else if all_values(|value| matches!(value, Value::Int(_) | Value::Float(_))) {
        Physical::DOUBLE
    } else {
        Physical::BYTE_ARRAY
    }
}

fn write<'v>(
    mut column: SerializedColumnWriter<'_>,
    kind: Physical,
    values: impl Iterator<Item = &'v Value> + Clone,
) -> Result<(), ParquetError> {
    let levels: Vec<i16> = values.clone().map(|value| i16::from(*value != Value::Null)).collect();
    let non_null_values = values.filter(|value| **value != Value::Null);
    match kind {
        Physical::BOOLEAN => {
            let values: Vec<bool> = non_null_values.map(|value| *value == Value::Bool(true)).collect();
            column.typed::<BoolType>().write_batch(&values, Some(&levels), None)?;
        }
        Physical::INT64 => {
            let integer = |value: &Value| if let Value::Int(value) = value { Some(*value) } else { None };
            let values: Vec<i64> = non_null_values.filter_map(integer).collect();
            column.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
        }
        Physical::DOUBLE => {
            let values: Vec<f64> = non_null_values.filter_map(Value::as_f64).collect();
            column.typed::<DoubleType>().write_batch(&values, Some(&levels), None)?;
        }
        _ => {
            let values: Vec<ByteArray> = non_null_values.map(|value| value.to_string().into_bytes().into()).collect();
            column.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None)?;
        }
    }
    column.close()
}
