// Package document parses files that people write, YAML and JSON, and decodes them strictly into
// Go values. Every flaw names file, line, column and field, with a hint. JSON is parsed as YAML,
// so there is one parser with positions.
//
// In: bytes and a Go type. Out: values, model.Flaws, the place of each field (Written). The package
// starts no goroutine and holds no lock. Start reading at Decode; internal/kind decodes resources
// with Reader and Decoder; YAML writes the other way.
package document
