package muster

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Whoever writes another agent finds every code that a Refuse or a refused signal may
// carry on the protocol's page.
func TestTheProtocolPageNamesEveryCode(t *testing.T) {
	page, err := os.ReadFile("../../../docs/protocol/README.md")
	if err != nil {
		t.Fatal(err)
	}
	codes := map[string]bool{}
	refusal := regexp.MustCompile(`(?:refusal\(|Code: |r\.Code, r\.Type = )"(\w+)"`)
	violation := regexp.MustCompile(`violation\((\w+),`)
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]outcome{"hole": hole, "malformed": malformed, "oversized": oversized, "streams": streams, "unkept": unkept}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range refusal.FindAllStringSubmatch(string(source), -1) {
			codes[m[1]] = true
		}
		for _, m := range violation.FindAllStringSubmatch(string(source), -1) {
			out, ok := byName[m[1]]
			if !ok {
				t.Fatalf("%s: violation(%s, …) is not on the list of this test", file, m[1])
			}
			codes[outcomeNames[out]] = true
		}
	}
	for v := refusedChunk; v <= refusedMalformed; v++ {
		if v != refusedStates { // the view says which limit
			codes[verdictNames[v]] = true
		}
	}
	if len(codes) < 15 {
		t.Fatalf("only %d codes found: %v", len(codes), codes)
	}
	for code := range codes {
		if !strings.Contains(string(page), "`"+code+"`") {
			t.Errorf("docs/protocol/README.md does not say what `%s` means", code)
		}
	}
}
