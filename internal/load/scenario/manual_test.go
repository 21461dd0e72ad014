package scenario

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

const manual = "../../../docs/load.md"

// Every example of the manual is a scenario; what an example leaves out, others say.
func TestExamplesOfTheManual(t *testing.T) {
	text, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	rest := map[string]string{
		"scenario:": "scenario: muster.load/v1\n",
		"agents:":   "agents: [{name: web, count: 100, checks: [{name: http, interval: 10s}]}]\n",
		"phases:":   "phases: [{steady: 10m}]\n",
	}
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(examples) < 6 {
		t.Fatalf("%d examples", len(examples))
	}
	for _, example := range examples {
		whole := example[1]
		for begins, more := range rest {
			if !strings.Contains("\n"+example[1], "\n"+begins) {
				whole += more
			}
		}
		s, err := Parse("load.md", []byte(whole))
		if err != nil {
			t.Errorf("%v in\n%s", err, whole)
			continue
		}
		s.Defaults()
		if err := s.Runs(); err != nil {
			t.Errorf("%v in\n%s", err, whole)
		}
	}
}

// The manual names every field, every capability that a file has to name, and has the
// table of figures.
func TestTheManualIsWhole(t *testing.T) {
	data, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, v := range []any{Scenario{}, Class{}, Proxies{}, About{}, Check{}, GroupCheck{}, Output{}, Values{}, Policy{}, Churn{}, Phase{}, Fault{}, Pick{}, FailCheck{}, Change{}, Operators{}, Stream{}} {
		for f := range reflect.TypeOf(v).Fields() {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && !strings.Contains(text, "`"+name+"`") && !strings.Contains(text, "."+name+"`") && !strings.Contains(text, name+":") {
				t.Errorf("%s says nothing of %T.%s", manual, v, name)
			}
		}
	}
	for _, name := range []string{"fleet-of-servers"} {
		if c, _ := capabilityOf(name); c.Exists {
			t.Errorf("%s exists, and no field of a scenario says what of it is to be played: it would be left out without a word", name)
		}
		if _, known := capabilityOf(name); !known || !strings.Contains(text, "`"+name+"`") {
			t.Errorf("capability %s: known %v, or not in the manual", name, known)
		}
	}
	var table strings.Builder
	for _, f := range Figures() {
		bound := "at most"
		if f.Least {
			bound = "at least"
		}
		fmt.Fprintf(&table, "| `%s` | %s; %s | %s |\n", f.Name, f.What, bound, f.Unit)
	}
	begin, end := strings.Index(text, "| figure | is | unit |\n|---|---|---|\n"), strings.Index(text, "\n## What comes out")
	if begin < 0 || end < begin {
		t.Fatalf("%s has no table of figures", manual)
	}
	begin += len("| figure | is | unit |\n|---|---|---|\n")
	if strings.TrimSpace(text[begin:end]) != strings.TrimSpace(table.String()) {
		if !*update {
			t.Fatalf("the figures of %s are not those of Figures: go test ./internal/load/scenario -update", manual)
		}
		if err := os.WriteFile(manual, []byte(text[:begin]+table.String()+text[end:]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
