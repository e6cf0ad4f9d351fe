//! Arrow tables that other libraries take by Arrow's PyCapsule interface, without a copy.

use std::ffi::CStr;

use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

const SCHEMA: &CStr = c"arrow_schema";
const STREAM: &CStr = c"arrow_array_stream";

/// A table of one batch.
#[pyclass(frozen, module = "paceline._native")]
pub struct Table(pub RecordBatch);

#[pymethods]
impl Table {
    /// The schema, for `pyarrow.schema(table)` and others.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.0.schema_ref().as_ref());
        PyCapsule::new_with_value(
            py,
            schema.map_err(|error| PyValueError::new_err(error.to_string()))?,
            SCHEMA,
        )
    }

    /// The table as a stream of batches; each call gives all of it. Other schemas than its own are not given.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A producer may give its own schema where it cannot give the one that was asked for.
        let _ = requested_schema;
        let batches = RecordBatchIterator::new([Ok(self.0.clone())], self.0.schema());
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(batches)), STREAM)
    }

    /// Rows.
    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    /// Names of columns, and their types as Arrow writes them.
    fn columns(&self) -> Vec<(String, String)> {
        let fields = self.0.schema_ref().fields();
        fields.iter().map(|field| (field.name().clone(), field.data_type().to_string())).collect()
    }
}
