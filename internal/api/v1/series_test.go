package v1

import (
	"encoding/json"
	"testing"
)

// FuzzSeriesRows decodes query results with random content, and expects time series or an error.
func FuzzSeriesRows(f *testing.F) {
	f.Add("scalar", `[1.5,"2"]`)
	f.Add("vector", `[{"metric":{"a":"b"},"value":[1,"NaN"]}]`)
	f.Add("matrix", `[{"metric":{},"values":[[1,"2"],[]]},null]`)
	f.Fuzz(func(_ *testing.T, form, text string) {
		r := SeriesResult{ResultType: form, Result: json.RawMessage(text)}
		_, _ = r.Rows()
		_ = new(SeriesPoint).UnmarshalJSON([]byte(text))
	})
}
