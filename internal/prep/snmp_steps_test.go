package prep

import (
	"testing"

	"github.com/muster-fleet/muster/internal/item"
)

// walk is a test output of the command snmpwalk -On.
const walk = `.1.3.6.1.2.1.1.1.0 = STRING: "a \"switch\"
of two lines = 2"
.1.3.6.1.2.1.1.3.0 = Timeticks: (123) 0:00:01.23
.1.3.6.1.2.1.2.2.1.2.1 = STRING: lo
.1.3.6.1.2.1.2.2.1.2.10 = STRING: eth0: uplink
.1.3.6.1.2.1.2.2.1.2.10 = STRING: repeated
.1.3.6.1.2.1.2.2.1.6.1 = ""
.1.3.6.1.2.1.2.2.1.6.10 = Hex-STRING: 00 0c 29 AB
CD EF
.1.3.6.1.2.1.2.2.1.8.10 = INTEGER: up(1)
.1.3.6.1.2.1.2.2.1.9.10 = Hex-STRING: 65 74 C3 A9 00 00
.1.3.6.1.2.1.2.2.1.9.11 = Hex-STRING: FF FE
.1.3.6.1.2.1.5.0 = BITS: 01 80 first(7)
.1.3.6.1.2.1.6.0 = No Such Instance currently exists at this OID
`

// TestSNMPSteps runs the preprocessing steps for SNMP on a walk's output, and expects their outputs and errors.
func TestSNMPSteps(t *testing.T) {
	names := []string{"{#NAME}", "1.3.6.1.2.1.2.2.1.2", "0", "{#MAC}", ".1.3.6.1.2.1.2.2.1.6", "2"}
	for _, c := range []struct {
		in, step string
		params   []string
		want     string
	}{
		{walk, "snmpWalkValue", []string{".1.3.6.1.2.1.1.1.0", "0"}, "a \"switch\"\nof two lines = 2"},
		{walk, "snmpWalkValue", []string{"1.3.6.1.2.1.1.3.0"}, "123"},
		{walk, "snmpWalkValue", []string{".1.3.6.1.2.1.2.2.1.2.10", "1"}, "eth0: uplink"},
		{walk, "snmpWalkValue", []string{".1.3.6.1.2.1.2.2.1.6.10", "0"}, "00 0c 29 AB CD EF"},
		{walk, "snmpWalkValue", []string{".1.3.6.1.2.1.2.2.1.6.10", "2"}, "00:0C:29:AB:CD:EF"},
		{walk, "snmpWalkValue", []string{".1.3.6.1.2.1.2.2.1.6.1", "2"}, ""},
		{walk, "snmpWalkValue", []string{".1.3.6.1.2.1.2.2.1.8.10", "0"}, "up(1)"},
		{walk, "snmpWalkValue", []string{".1.3.6.1.2.1.2.2.1.9.10", "1"}, "eté"},
		{walk, "snmpWalkValue", []string{".1.3.6.1.2.1.2.2.1.9.11", "1"}, `error: 1. Failed: cannot extract value from SNMP walk: "FF FE" is not UTF-8`},
		{walk, "snmpWalkValue", []string{".1.3.6.1.2.1.5.0", "3"}, "32769"},
		{walk, "snmpWalkValue", []string{".1.3.6.1.2.1.6.0", "0"}, "error: 1. Failed: cannot extract value from SNMP walk: the SNMP data has no value of .1.3.6.1.2.1.6.0"},
		{walk, "snmpWalkValue", []string{".1.3.6.1.2.1.2.2.1.2", "0"}, "error: 1. Failed: cannot extract value from SNMP walk: the SNMP data has no value of .1.3.6.1.2.1.2.2.1.2"},
		{"Timeout", "snmpWalkValue", []string{".1.3", "0"}, `error: 1. Failed: cannot extract value from SNMP walk: expected a line such as .1.3.6 = INTEGER: 1, got "Timeout"`},
		{".1.3 = STRING: \"x", "snmpWalkValue", []string{".1.3", "0"}, "error: 1. Failed: cannot extract value from SNMP walk: SNMP value of .1.3: the quotation mark at its end is missing"},
		{walk, "snmpWalkToJson", names, `[{"{#SNMPINDEX}":"1","{#NAME}":"lo","{#MAC}":""},{"{#SNMPINDEX}":"10","{#NAME}":"eth0: uplink","{#MAC}":"00:0C:29:AB:CD:EF"}]`},
		{walk, "snmpWalkToJson", []string{"{#X}", ".1.3.6.1.2.1.2.2.1.9", "1"}, `error: 1. Failed: cannot convert SNMP walk to JSON: "FF FE" is not UTF-8`},
		{"", "snmpWalkToJson", names, "[]"},
		{"00 0C 29", "snmpGetValue", []string{"2"}, "00:0C:29"},
		{"41 42", "snmpGetValue", []string{"1"}, "AB"},
		{"05 00 00 00 00 00 00 00 FF", "snmpGetValue", []string{"3"}, "5"},
		{"x", "snmpGetValue", []string{"3"}, `error: 1. Failed: cannot convert SNMP value: value "x" is not a hexadecimal text`},
	} {
		if got := outcome(compileChain(t, item.Text, sampleStep(c.step, c.params...)).Run(nil, item.Sample{Value: item.FromText(c.in)})); got != c.want {
			t.Errorf("%s %q:\n got %s\nwant %s", c.step, c.params, got, c.want)
		}
	}
}

// FuzzParseWalk parses random texts as an SNMP walk, and expects at most one value per byte. No text may cause a
// panic.
func FuzzParseWalk(f *testing.F) {
	f.Add(walk)
	f.Fuzz(func(t *testing.T, text string) {
		left := len(text) + 1
		_ = parseWalk(text, func(v snmpValue) bool {
			if left--; left < 0 {
				t.Fatal("more values than bytes")
			}
			for _, format := range []snmpFormat{snmpAsIs, snmpUTF8, snmpMAC, snmpBits} {
				_, _ = v.convert(format)
			}
			return true
		})
	})
}
