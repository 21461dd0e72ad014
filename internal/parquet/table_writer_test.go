package parquet

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
)

// TestFileMatchesGoldenFile writes a Parquet file, and compares the bytes with a golden file.
// github.com/parquet-go/parquet-go v0.32.0 has read them: it is no dependency, because it would make the program 10 MB
// larger.
func TestFileMatchesGoldenFile(t *testing.T) {
	var file bytes.Buffer
	testenv.NoError(t, Write(&file, []Column{{"name", Text}, {"nodes", Integer}, {"percent", Number}}, [][]string{
		{"baseline", "3", "99.5"}, {"café", "-1", ""}, {"", "", ""}, {"x", "9223372036854775807", "1e300"},
	}))
	testenv.Golden(t, "testdata/table-v1.hex", hex.Dump(file.Bytes()), "no other form: readers have read this one")
}

// TestTextInNumberColumnIsRefused writes a word into a column of numbers, and expects an error.
func TestTextInNumberColumnIsRefused(t *testing.T) {
	for _, kind := range []Kind{Integer, Number} {
		if err := Write(&bytes.Buffer{}, []Column{{"n", kind}}, [][]string{{"many"}}); err == nil {
			t.Errorf("kind %d has no error", kind)
		}
	}
}
