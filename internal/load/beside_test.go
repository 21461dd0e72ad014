package load

import (
	"strings"
	"testing"
)

// Whoever does worse in a faster phase is named, by the goal, or by what is fair without.
func TestStarved(t *testing.T) {
	goals := []Goal{{Name: "list-p99", Want: 250}}
	for name, c := range map[string]struct {
		was, now []Beside
		want     string // empty: nobody starves
	}{
		"within the goal":       {[]Beside{{"list-p99", "", 99, 20}}, []Beside{{"list-p99", "", 99, 250}}, ""},
		"goal missed":           {[]Beside{{"list-p99", "", 99, 20}}, []Beside{{"list-p99", "", 2, 251}}, "double starves people who list: 251 ms, 20.0 ms in usual; asked at most 250 ms"},
		"missed before, too":    {[]Beside{{"list-p99", "", 99, 300}}, []Beside{{"list-p99", "", 99, 400}}, ""},
		"fair without a goal":   {[]Beside{{"apply-p99", "", 99, 100}}, []Beside{{"apply-p99", "", 99, 650}}, ""},
		"unfair":                {[]Beside{{"apply-p99", "", 99, 100}}, []Beside{{"apply-p99", "", 99, 651}}, "double starves people who write resources: 651 ms, 100 ms in usual; at 2 times the rate at most 650 ms is fair"},
		"few answers":           {[]Beside{{"apply-p99", "", 99, 100}}, []Beside{{"apply-p99", "", 19, 900}}, ""},
		"no answer":             {[]Beside{{"list-p99", "", 40, 20}}, nil, "double starves people who list: no answer at all, 20.0 ms in usual; 40 answers there"},
		"no answer, and no few": {[]Beside{{"list-p99", "", 39, 20}}, nil, ""},
		"nothing to see":        {[]Beside{{"watch-p99", "", 99, 20}}, nil, ""},
		"history":               {[]Beside{{historyBehind, "", 9, 0.3}}, []Beside{{historyBehind, "", 9, 3.3}}, "double starves history: 3.3 s, 0.3 s in usual; at 2 times the rate at most 3.2 s is fair"},
		"intent":                {[]Beside{{"holds-p99", "", 99, 20}}, []Beside{{"holds-p99", "", 99, 400}}, "double starves agents that wait for intent: 400 ms, 20.0 ms in usual; at 2 times the rate at most 330 ms is fair"},
		"a class":               {[]Beside{{heldShare, "web", 9, 100}, {heldShare, "db", 9, 100}}, []Beside{{heldShare, "web", 9, 99}, {heldShare, "db", 9, 97}}, "double starves class db: 97.0 % of its rate, 100 % in usual; asked at least 98.0 %"},
	} {
		cfg := Config{Goals: goals}
		phases := []Played{
			{Name: "usual", Kind: "steady", Rate: 1, From: 0, To: 20, Beside: c.was},
			{Name: "step", Kind: kindStep, Rate: 3, Beside: c.now},
			{Name: "overload", Kind: "steady", Rate: 3, Beside: c.now},
			{Name: "double", Kind: "steady", Rate: 2, From: 20, To: 30, Beside: c.now},
			{Name: "half", Kind: "steady", Rate: 0.5, From: 30, To: 40, Beside: c.now},
		}
		var before *Played
		for i := range phases {
			p := &phases[i]
			before = cfg.overtakes(before, p, p.Name == "overload")
			if said := strings.Join(p.Missed, "\n"); p.Name == "double" && said != c.want || p.Name != "double" && said != "" {
				t.Errorf("%s: %s: %q, want %q", name, p.Name, said, c.want)
			}
		}
	}
}
