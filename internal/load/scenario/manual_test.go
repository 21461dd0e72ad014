package scenario

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
)

// manual is the folder of the two pages of load tests.
const manual = "../../../docs"

// pages returns the texts of docs/load.md and docs/load-*.md, by name.
func pages(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(manual, "load*.md"))
	if err != nil || len(names) < 2 {
		t.Fatalf("pages of the manual: %v, %v", names, err)
	}
	texts := map[string]string{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		testenv.NoError(t, err)
		texts[filepath.Base(name)] = string(text)
	}
	return texts
}

// TestExamplesOfTheManual parses each example of the manual, completed by others where it leaves parts out.
func TestExamplesOfTheManual(t *testing.T) {
	rest := map[string]string{
		"scenario:": "scenario: muster.load/v1\n",
		"agents:":   "agents: [{name: web, count: 100, checks: [{name: http, interval: 10s}]}]\n",
		"phases:":   "phases: [{steady: 10m}]\n",
	}
	found := 0
	for page, text := range pages(t) {
		for _, example := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(text, -1) {
			found++
			whole := example[1]
			for begins, more := range rest {
				if !strings.Contains("\n"+example[1], "\n"+begins) {
					whole += more
				}
			}
			s, err := Parse(page, []byte(whole))
			if err != nil {
				t.Errorf("%v in\n%s", err, whole)
				continue
			}
			s.Defaults()
			if err := s.Runs(); err != nil {
				t.Errorf("%s: %v in\n%s", page, err, whole)
			}
		}
	}
	if found < 6 {
		t.Fatalf("%d examples", found)
	}
}

// TestTheManualIsWhole expects each field and capability of a scenario file in the manual.
func TestTheManualIsWhole(t *testing.T) {
	text := pages(t)["load-reference.md"]
	for _, v := range []any{Scenario{}, Class{}, Proxies{}, About{}, Check{}, GroupCheck{}, Output{}, Values{}, Policy{}, Churn{}, Phase{}, Fault{}, Pick{}, FailCheck{}, Change{}, Operators{}, Stream{}} {
		for f := range reflect.TypeOf(v).Fields() {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && !strings.Contains(text, "`"+name+"`") && !strings.Contains(text, "."+name+"`") && !strings.Contains(text, name+":") {
				t.Errorf("load-reference.md says nothing of %T.%s", v, name)
			}
		}
	}
	for _, c := range Capabilities() {
		if c.Name == fleetOfServers && !strings.Contains(text, "`"+c.Name+"`") {
			t.Errorf("load-reference.md does not name capability %s", c.Name)
		}
	}
}
