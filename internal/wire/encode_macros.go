package wire

import "encoding/json"

// MaxMacros bounds the macro values in a value block, in bytes.
const MaxMacros = 64 << 10

// EncodeMacros encodes macro values for the field ValueBlock.Macros.
func EncodeMacros(values map[string]string) string {
	if len(values) == 0 {
		return ""
	}
	body, _ := json.Marshal(values) // texts always encode; names are ascending
	return string(body)
}

// DecodeMacros decodes macro values from the field ValueBlock.Macros.
func DecodeMacros(text string) (values map[string]string, err error) {
	if text != "" {
		err = json.Unmarshal([]byte(text), &values)
	}
	return values, err
}
