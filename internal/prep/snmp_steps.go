package prep

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
)

// snmpFormat is the conversion of an SNMP value, by its number in Zabbix. The conversions are unchanged, UTF-8, MAC
// address, and integer from BITS.
type snmpFormat byte

const (
	snmpAsIs snmpFormat = '0'
	snmpUTF8 snmpFormat = '1' // text from Hex-STRING
	snmpMAC  snmpFormat = '2' // 00:0C:29 from Hex-STRING
	snmpBits snmpFormat = '3' // integer from BITS: the first eight bytes, the lowest one first
)

// parseSNMPFormat parses the digit that selects the conversion of an SNMP value. fewest is the lowest number that the
// step allows.
func parseSNMPFormat(text string, fewest snmpFormat) (snmpFormat, error) {
	if len(text) != 1 || snmpFormat(text[0]) < fewest || snmpFormat(text[0]) > snmpBits {
		return 0, model.Errorf(model.Invalid, "the format is %q, expected %c to %c", text, fewest, snmpBits).
			WithHint("0: as it is, 1: UTF-8 from Hex-STRING, 2: MAC address from Hex-STRING, 3: integer from BITS")
	}
	return snmpFormat(text[0]), nil
}

// snmpValue is one line of an SNMP walk in the form of snmpwalk -On.
type snmpValue struct{ oid, kind, text string }

// convert converts an SNMP value to a format such as UTF-8 or a MAC address. It leaves a string that is already
// readable.
func (v snmpValue) convert(format snmpFormat) (string, error) {
	if format == snmpAsIs || format != snmpBits && v.kind == "STRING" {
		return v.text, nil
	}
	raw, err := hexBytes(v.text)
	if err != nil {
		return "", fmt.Errorf("%s %q is not a hexadecimal text", v.kind, model.Truncate(v.text, 100))
	}
	switch format {
	case snmpMAC:
		return strings.ToUpper(strings.Join(strings.Fields(v.text), ":")), nil
	case snmpBits:
		n := uint64(0)
		for i, b := range raw[:min(len(raw), 8)] {
			n |= uint64(b) << (8 * i)
		}
		return strconv.FormatUint(n, 10), nil
	}
	raw, _, _ = bytes.Cut(raw, []byte{0})
	if !utf8.Valid(raw) {
		return "", fmt.Errorf("%q is not UTF-8", model.Truncate(v.text, 100))
	}
	return string(raw), nil
}

// hexBytes reads bytes written in hexadecimal, such as 00 0C 29. Names of bits behind them are left out.
func hexBytes(text string) (raw []byte, err error) {
	for _, field := range strings.Fields(text) {
		b, err := hex.DecodeString(field)
		if err != nil || len(b) != 1 {
			if len(raw) > 0 && strings.HasSuffix(field, ")") {
				break
			}
			return nil, errors.New("not hexadecimal")
		}
		raw = append(raw, b[0])
	}
	if len(raw) == 0 {
		return nil, errors.New("empty")
	}
	return raw, nil
}

// parseWalk parses the output of an SNMP walk. It calls the function each with every value until each returns false.
func parseWalk(text string, each func(snmpValue) bool) error {
	for text = strings.TrimLeft(text, "\r\n "); text != ""; text = strings.TrimLeft(text, "\r\n ") {
		oid, tail, _ := strings.Cut(text, " = ")
		v := snmpValue{oid: normalizeOID(oid)}
		if v.oid == "" {
			line, _, _ := strings.Cut(text, "\n")
			return fmt.Errorf("expected a line such as .1.3.6 = INTEGER: 1, got %q", model.Truncate(line, 100))
		}
		line, _, _ := strings.Cut(tail, "\n")
		if kind, _, found := strings.Cut(line, ":"); found && isSNMPKind(kind) {
			v.kind, tail = kind, strings.TrimLeft(tail[len(kind)+1:], " ")
		}
		if strings.HasPrefix(tail, `"`) {
			var err error
			if v.text, text, err = cutQuoted(tail); err != nil {
				return fmt.Errorf("SNMP value of %s: %w", v.oid, err)
			}
			v.kind = "STRING"
		} else {
			v.text, text = cutUnquoted(v.kind, tail)
		}
		if strings.HasPrefix(v.text, "No Such ") || strings.HasPrefix(v.text, "No more variables") {
			continue
		}
		if !each(v) {
			return nil
		}
	}
	return nil
}

// cutUnquoted reads an unquoted value of an SNMP walk, up to the line with the next object identifier. It returns the
// value and the rest.
func cutUnquoted(kind, text string) (value, rest string) {
	value, rest, _ = strings.Cut(text, "\n")
	lines := []string{value}
	for rest != "" && (kind == "Hex-STRING" || kind == "BITS") { // many digits go on in the next lines
		next, more, _ := strings.Cut(rest, "\n")
		if _, err := hexBytes(next); err != nil {
			break
		}
		lines, rest = append(lines, next), more
	}
	value = strings.TrimSpace(strings.Join(lines, " "))
	if ticks, _, ok := strings.Cut(strings.TrimPrefix(value, "("), ")"); ok && kind == "Timeticks" {
		value = ticks // (1234) 0:00:12.34
	}
	return value, rest
}

// normalizeOID returns an SNMP object identifier in digits with a leading dot. The text is empty if it is no such
// identifier.
func normalizeOID(text string) string {
	text = "." + strings.TrimPrefix(strings.TrimSpace(text), ".")
	for _, part := range strings.Split(text[1:], ".") {
		if _, err := strconv.ParseUint(part, 10, 64); err != nil {
			return ""
		}
	}
	return text
}

// isSNMPKind reports whether a text is the name of an SNMP type, such as INTEGER.
func isSNMPKind(text string) bool {
	return slices.Contains([]string{"STRING", "Hex-STRING", "INTEGER", "Gauge32", "Counter32", "Counter64", "Timeticks", "OID", "IpAddress", "BITS", "Opaque", "Network Address", "UInteger32"}, text)
}

// cutQuoted splits a text into the quoted value at its start and the rest. It returns the value and the remaining
// lines.
func cutQuoted(text string) (inside, rest string, err error) {
	var out strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			i++
			out.WriteByte(text[i])
		case c == '"':
			_, rest, _ = strings.Cut(text[i:], "\n")
			return out.String(), rest, nil
		default:
			out.WriteByte(c)
		}
	}
	return "", "", errors.New("the quotation mark at its end is missing")
}

// compileSNMPWalkValue compiles the step snmpWalkValue, which takes the value of one object identifier from a walk.
func compileSNMPWalkValue(params []string, _ item.Type) (stepFunc, error) {
	oid, format := normalizeOID(params[0]), snmpAsIs
	if oid == "" {
		return nil, model.Errorf(model.Invalid, "%q is no object identifier in digits, such as .1.3.6.1.2.1.1.3.0", params[0])
	}
	if len(params) > 1 {
		var err error
		if format, err = parseSNMPFormat(params[1], snmpAsIs); err != nil {
			return nil, err
		}
	}
	return func(v item.Value, _ int64, _ *rememberedValue, _ *ParsedValue) (item.Value, error) {
		var found *snmpValue
		err := parseWalk(textOf(v), func(one snmpValue) bool {
			if one.oid == oid {
				found = &one
			}
			return found == nil
		})
		if err == nil && found == nil {
			err = fmt.Errorf("the SNMP data has no value of %s", oid)
		}
		text := ""
		if err == nil {
			text, err = found.convert(format)
		}
		if err != nil {
			return v, fmt.Errorf("cannot extract value from SNMP walk: %w", err)
		}
		return item.FromText(text), nil
	}, nil
}

// walkColumn describes one field of the JSON objects that the step snmpWalkToJson makes. It has a name, an object
// identifier and a format.
type walkColumn struct {
	name, prefix string
	format       snmpFormat
}

// compileSNMPWalkToJSON compiles the step snmpWalkToJson, which lists the entities in an SNMP walk. The columns of the
// walk become their fields.
func compileSNMPWalkToJSON(params []string, _ item.Type) (stepFunc, error) {
	if len(params)%3 != 0 {
		return nil, model.Errorf(model.Invalid, "%d parameters found, expected three for each field: name, object identifier, format", len(params))
	}
	var columns []walkColumn
	for i := 0; i < len(params); i += 3 {
		c := walkColumn{name: params[i], prefix: normalizeOID(params[i+1])}
		if c.name == "" || c.prefix == "" {
			return nil, model.Errorf(model.Invalid, "expected a name and an object identifier in digits, got %q and %q", params[i], params[i+1])
		}
		var err error
		if c.format, err = parseSNMPFormat(params[i+2], snmpAsIs); err != nil {
			return nil, err
		}
		columns = append(columns, c)
	}
	return func(v item.Value, _ int64, _ *rememberedValue, _ *ParsedValue) (item.Value, error) {
		text, err := walkToJSON(textOf(v), columns)
		if err != nil {
			return v, fmt.Errorf("cannot convert SNMP walk to JSON: %w", err)
		}
		return item.FromText(text), nil
	}, nil
}

// walkToJSON converts an SNMP walk to a JSON list of objects. Each index of the columns gives one object, in the order
// in which the indexes occur.
func walkToJSON(text string, columns []walkColumn) (string, error) {
	type row struct {
		index  string
		values []*string // by column
	}
	var rows []row
	byIndex := map[string]int{}
	var failed error
	err := parseWalk(text, func(one snmpValue) bool {
		for k, c := range columns {
			index, ok := strings.CutPrefix(one.oid, c.prefix+".")
			if !ok {
				continue
			}
			value, err := one.convert(c.format)
			if err != nil {
				failed = err
				return false
			}
			at, known := byIndex[index]
			if !known {
				at = len(rows)
				byIndex[index] = at
				rows = append(rows, row{index, make([]*string, len(columns))})
			}
			if rows[at].values[k] == nil { // the first of repeated values counts
				rows[at].values[k] = &value
			}
		}
		return true
	})
	if failed != nil || err != nil {
		return "", errors.Join(failed, err)
	}
	out := []byte{'['}
	for i := range rows {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendJSONString(append(out, `{"{#SNMPINDEX}":`...), rows[i].index)
		for k, c := range columns {
			if value := rows[i].values[k]; value != nil {
				out = append(appendJSONString(append(out, ','), c.name), ':')
				out = appendJSONString(out, *value)
			}
		}
		if out = append(out, '}'); len(out) > maxOutput {
			return "", errOutput
		}
	}
	return string(append(out, ']')), nil
}

// compileSNMPGetValue compiles the step snmpGetValue, which converts one SNMP value to a readable form.
func compileSNMPGetValue(params []string, _ item.Type) (stepFunc, error) {
	format, err := parseSNMPFormat(params[0], snmpUTF8)
	if err != nil {
		return nil, err
	}
	return func(v item.Value, _ int64, _ *rememberedValue, _ *ParsedValue) (item.Value, error) {
		text, err := snmpValue{kind: "value", text: textOf(v)}.convert(format)
		if err != nil {
			return v, fmt.Errorf("cannot convert SNMP value: %w", err)
		}
		return item.FromText(text), nil
	}, nil
}
