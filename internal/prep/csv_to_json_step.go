package prep

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
)

// csvForm has the delimiter and the quotation mark of a CSV text, each one character
type csvForm struct {
	delimiter string // empty: the text names it in its first line (sep=), or it is a comma
	quote     string // empty: no field is quoted
	header    bool   // the first row has the names of the columns
}

// compileCSVToJSON compiles the step csvToJson, which converts CSV rows to JSON objects
func compileCSVToJSON(params []string, _ item.Type) (stepFunc, error) {
	form := csvForm{header: true}
	if len(params) > 0 {
		form.delimiter = unescape(params[0], false)
	}
	if len(params) > 1 {
		form.quote = unescape(params[1], false)
	}
	if len(params) > 2 {
		if params[2] != "0" && params[2] != "1" {
			return nil, model.Errorf(model.Invalid, "the third parameter is %q, expected 1 (with a header row) or 0", params[2])
		}
		form.header = params[2] == "1"
	}
	switch {
	case utf8.RuneCountInString(form.delimiter) > 1 || utf8.RuneCountInString(form.quote) > 1:
		return nil, model.Errorf(model.Invalid, "delimiter and quotation mark are single characters")
	case form.quote != "" && form.quote == form.delimiter:
		return nil, model.Errorf(model.Invalid, "delimiter and quotation mark are the same character")
	}
	return func(v item.Value, _ int64, _ *rememberedValue, _ *ParsedValue) (item.Value, error) {
		out, err := form.convert(textOf(v))
		if err != nil {
			return v, fmt.Errorf("cannot convert CSV to JSON: %w", err)
		}
		return item.FromText(out), nil
	}, nil
}

// convert converts a CSV text to a JSON array of its rows
func (f csvForm) convert(text string) (string, error) {
	if line, rest, ok := strings.Cut(text, "\n"); ok || len(line) > 4 {
		line = strings.TrimSuffix(line, "\r")
		if f.delimiter == "" && len(line) > 4 && strings.EqualFold(line[:4], "sep=") && utf8.RuneCountInString(line[4:]) == 1 {
			f.delimiter, text = line[4:], rest
			if !ok {
				text = ""
			}
		}
	}
	if f.delimiter == "" {
		f.delimiter = ","
	}
	if f.delimiter == f.quote {
		return "", errors.New("delimiter and quotation mark are the same character")
	}
	out := []byte{'['}
	var names []string
	for number := 0; text != ""; number++ {
		row, rest, more, err := f.cutRow(text)
		if err != nil {
			return "", fmt.Errorf("CSV row %d: %w", number+1, err)
		}
		text = rest
		if number == 0 && f.header {
			names = row
			if name := firstDuplicate(names); name != "" {
				return "", fmt.Errorf("duplicated column name %q", name)
			}
		} else if out, err = f.appendRow(out, names, row); err != nil {
			return "", fmt.Errorf("CSV row %d: %w", number+1, err)
		}
		if more && text == "" { // a line feed at the end begins an empty row
			if out, err = f.appendRow(out, names, []string{""}); err != nil {
				return "", err
			}
		}
	}
	return string(append(out, ']')), nil
}

// appendRow appends a CSV row as a JSON object. Columns without field are empty; without header the names are
// numbers.
func (f csvForm) appendRow(out []byte, names, row []string) ([]byte, error) {
	if f.header && len(row) > len(names) {
		return out, errors.New("data row contains more fields than the header row")
	}
	if len(out) > 1 {
		out = append(out, ',')
	}
	out = append(out, '{')
	for i := range max(len(names), len(row)) {
		if i > 0 {
			out = append(out, ',')
		}
		if f.header {
			out = appendJSONString(out, names[i])
		} else {
			out = appendJSONString(out, strconv.Itoa(i+1))
		}
		out = append(out, ':')
		field := ""
		if i < len(row) {
			field = row[i]
		}
		if out = appendJSONString(out, field); len(out) > maxOutput {
			return out, errOutput
		}
	}
	return append(out, '}'), nil
}

// cutRow returns the fields of the first CSV row, and the text after the row. more is true if a line feed ended the
// row.
func (f csvForm) cutRow(text string) (row []string, rest string, more bool, err error) {
	for {
		var field string
		if f.quote != "" && strings.HasPrefix(text, f.quote) {
			if field, text, err = f.cutQuoted(text[len(f.quote):]); err != nil {
				return nil, "", false, err
			}
		} else {
			end := strings.IndexByte(text, '\n')
			if end < 0 {
				end = len(text)
			}
			if i := strings.Index(text[:end], f.delimiter); i >= 0 {
				end = i
			}
			field, text = text[:end], text[end:]
			if text == "" || text[0] == '\n' {
				field = strings.TrimSuffix(field, "\r")
			}
		}
		row = append(row, field)
		switch {
		case strings.HasPrefix(text, f.delimiter):
			text = text[len(f.delimiter):]
		case text == "":
			return row, "", false, nil
		case text[0] == '\n':
			return row, text[1:], true, nil
		case strings.HasPrefix(text, "\r\n"):
			return row, text[2:], true, nil
		default:
			return nil, "", false, errors.New("delimiter character or end of line are not detected after quoted field")
		}
	}
}

// cutQuoted returns the text of a quoted CSV field, and the text after its closing quote. A doubled quote is one of
// the field.
func (f csvForm) cutQuoted(text string) (field, rest string, err error) {
	var b strings.Builder
	for {
		before, after, ok := strings.Cut(text, f.quote)
		if !ok {
			return "", "", errors.New("unclosed quoted field")
		}
		b.WriteString(before)
		if text, ok = strings.CutPrefix(after, f.quote); !ok {
			return b.String(), after, nil
		}
		b.WriteString(f.quote)
	}
}

// firstDuplicate returns the first repeated name of a list. The text is empty if no name is repeated.
func firstDuplicate(names []string) string {
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		if seen[name] {
			return name
		}
		seen[name] = true
	}
	return ""
}
