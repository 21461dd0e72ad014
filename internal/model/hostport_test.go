package model

import (
	"strings"
	"testing"
)

func TestCheckHostPort(t *testing.T) {
	for text, want := range map[string]string{
		"muster.example.org:8443": "", "10.0.0.7:8443": "", "[::1]:8443": "", "[fe80::1%eth0]:8443": "",
		"::1:8443":             `"::1:8443" can be read in two ways: with a port, write [::1]:8443; without one, write [::1:8443]:8443`,
		"fd00::7:8443":         `with a port, write [fd00::7]:8443`,
		"fd00::7":              `"fd00::7" has no port: write [fd00::7]:8443`,
		"::1":                  `"::1" has no port: write [::1]:8443`,
		"[::1]":                `"[::1]" has no port: write [::1]:8443`,
		"1:2:3:4:5:6:7:8:8443": `an IPv6 address stands in brackets, write [1:2:3:4:5:6:7:8]:8443`,
		"muster":               `"muster" has no port: write muster:8443`,
		"10.0.0.7":             `"10.0.0.7" has no port: write 10.0.0.7:8443`,
		":8443":                `names no host`,
		"muster:":              `"" is no port`,
		"muster:https":         `"https" is no port`,
		"muster:0":             `"0" is no port`,
		"a b:1":                `"a b" is no host`,
		"https://muster:8443/": `agents speak no HTTP, write muster:8443`,
		"http://muster:8443":   `cannot be read`,
		"":                     `cannot be read`,
	} {
		err := CheckHostPort(text)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || ClassOf(err) != Invalid) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
