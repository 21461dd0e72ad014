package wire

import "encoding/json"

// MaxMacros bounds ValueBlock.Macros, in bytes.
const MaxMacros = 64 << 10

// EncodeMacros returns the values of macros in the encoding of ValueBlock.Macros.
func EncodeMacros(values map[string]string) string {
	if len(values) == 0 {
		return ""
	}
	body, _ := json.Marshal(values) // texts always encode; names are ascending
	return string(body)
}

// DecodeMacros decodes ValueBlock.Macros.
func DecodeMacros(text string) (values map[string]string, err error) {
	if text != "" {
		err = json.Unmarshal([]byte(text), &values)
	}
	return values, err
}
