package collect

import (
	"fmt"
	"strings"
)

// Key is a parsed Zabbix item key, such as vfs.fs.size[/,free], with a name and parameters.
type Key struct {
	Name       string
	Parameters []string
}

// Parameter returns a parameter of the item key by index. A missing or empty parameter has the given default.
func (k *Key) Parameter(i int, otherwise string) string {
	if i >= len(k.Parameters) || k.Parameters[i] == "" {
		return otherwise
	}
	return k.Parameters[i]
}

// ParseKey parses an item key in Zabbix's syntax, such as name or name[a,"b, c",[d,e]].
func ParseKey(text string) (k Key, err error) {
	open := strings.IndexByte(text, '[')
	if open < 0 {
		k.Name = text
		return k, checkKeyName(text)
	}
	k.Name = text[:open]
	if err := checkKeyName(k.Name); err != nil {
		return k, err
	}
	rest := text[open+1:]
	for {
		var one string
		if one, rest, err = cutParameter(rest); err != nil {
			return k, fmt.Errorf("item key %s: %w", text, err)
		}
		k.Parameters = append(k.Parameters, one)
		if rest == "]" {
			return k, nil
		}
		if !strings.HasPrefix(rest, ",") {
			return k, fmt.Errorf("item key %s: expected a comma or ] at the end of parameter %d, and nothing behind ]", text, len(k.Parameters))
		}
		rest = rest[1:]
	}
}

// checkKeyName returns an error if an item key's name has an invalid character. Besides letters and digits, a name may
// have the characters . _ -.
func checkKeyName(name string) error {
	for i := range len(name) {
		if c := name[i]; (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return fmt.Errorf("item key %s: %q is not allowed in its name", name, c)
		}
	}
	if name == "" {
		return fmt.Errorf("the item key has no name")
	}
	return nil
}

// cutParameter splits the text of an item key after its first parameter. It returns the parameter without
// quotes, and the rest of the text.
func cutParameter(text string) (one, rest string, err error) {
	text = strings.TrimLeft(text, " ")
	switch {
	case strings.HasPrefix(text, `"`):
		for i := 1; i < len(text); i++ {
			if text[i] == '\\' && i+1 < len(text) && text[i+1] == '"' {
				i++
			} else if text[i] == '"' {
				return strings.ReplaceAll(text[1:i], `\"`, `"`), strings.TrimLeft(text[i+1:], " "), nil
			}
		}
		return "", "", fmt.Errorf("a quotation mark is not closed")
	case strings.HasPrefix(text, "["):
		if end := strings.IndexByte(text, ']'); end > 0 {
			return text[1:end], strings.TrimLeft(text[end+1:], " "), nil
		}
		return "", "", fmt.Errorf("a list in brackets is not closed")
	}
	end := strings.IndexAny(text, ",]")
	if end < 0 {
		return "", "", fmt.Errorf("the closing \"]\" is missing")
	}
	return text[:end], text[end:], nil
}
