package trigger

import (
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
)

// TestAggregates evaluates formulas over items of several nodes, and expects their results.
func TestAggregates(t *testing.T) {
	for formula, want := range map[string]string{
		`avg(last_foreach(/*/load))`:                                            "4",
		`max(last_foreach(/*/load))*2`:                                          "12",
		`count(last_foreach(/*/load),"gt",2)`:                                   "2",
		`count(last_foreach(/*/load),"gt",{$MAX})/count(last_foreach(/*/load))`: "0.6666666666666666",
		`item_count(exists_foreach(/*/load))`:                                   "3",
		`stddevpop(last_foreach(/*/load))`:                                      "1.632993161855452",
		`sum(avg_foreach(/*/load?[group="web" and not tag="env:test"],5m))`:     "12",
	} {
		p, err := CompileFormula(nil, formula, func(string) (string, error) { return "2", nil })
		if err != nil {
			t.Errorf("%s: %v", formula, err)
			continue
		}
		values := make([][]float64, len(p.Selections()))
		for i := range values {
			values[i] = []float64{2, 4, 6}
		}
		if v, err := p.Aggregate(values, start); err != nil || v.String() != want {
			t.Errorf("%s = %v, %v; want %s", formula, v, err, want)
		}
	}
	for host, reason := range map[string]string{"*": "no item load[*] of the nodes has values", "": "no item load[*] of the node has values"} {
		p, err := CompileFormula(nil, "avg(last_foreach(/"+host+"/load[*]))", nil)
		if err != nil || p.Selections()[0].Host != host {
			t.Fatalf("host %q: %v", host, err)
		}
		if _, err := p.Aggregate([][]float64{nil}, start); err == nil || err.Error() != reason {
			t.Errorf("host %q without values: %v", host, err)
		}
	}
}

// TestInvalidAggregatesAreRefused compiles invalid formulas over items of several nodes, and expects an error for each.
func TestInvalidAggregatesAreRefused(t *testing.T) {
	items := []model.Item{{Key: "load"}}
	for formula, reason := range map[string]string{
		`last(//load)+avg(last_foreach(/*/load))`: "mixes single items",
		`last(//load)+avg(last_foreach(//load))`:  "mixes single items",
		`avg(avg_foreach(/*/load))`:               "needs a period",
		`avg(avg_foreach(/*/load,#3))`:            "a period of time",
		`avg(avg_foreach(/*/load,2y))`:            "longer than 31d",
		`find(last_foreach(/*/load))`:             "no function over values",
		`avg(nodata_foreach(/*/load,5m))`:         "no function over items",
		`avg(last_foreach(/*/load?[host="x"]))`:   "expected group=",
		`avg(last_foreach(/*/load?[group=x]))`:    "a text in quotes",
		`avg(/*/load,5m)`:                         "several nodes need an aggregate",
		`avg(//load?[group="x"],5m)`:              "several nodes need an aggregate",
	} {
		if _, err := CompileFormula(items, formula, nil); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v; want %q", formula, err, reason)
		}
	}
	if _, err := CompileForItems(items, `avg(last_foreach(/*/load))>1`, nil); err == nil || !strings.Contains(err.Error(), "RuleGroup") {
		t.Errorf("a trigger over several nodes: %v", err)
	}
}

// TestSelection checks which items of several nodes a selection accepts, by key, group, tag and period. A
// selection names items of several nodes.
func TestSelection(t *testing.T) {
	p, err := CompileFormula(nil, `sum(max_foreach(/*/vfs.fs.size[*,"used"]?[(group="web" or group="db") and tag<>"env:test"],1h:now-1h))`, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &p.Selections()[0]
	for key, want := range map[string]bool{`vfs.fs.size[/,"used"]`: true, `vfs.fs.size["/a,b","used"]`: true, `vfs.fs.size[/,free]`: false, `vfs.fs.size`: false, `vfs.fs.size[/`: false} {
		if s.MatchesKey(key) != want {
			t.Errorf("MatchesKey(%s) = %t", key, !want)
		}
	}
	in := func(names ...string) func(string) bool {
		return func(name string) bool { return strings.Contains(" "+strings.Join(names, " ")+" ", " "+name+" ") }
	}
	tag := func(name, value string, _ bool) bool { return name == "env" && value == "test" }
	none := func(string, string, bool) bool { return false }
	if !s.Matches(in("db"), none) || s.Matches(in("mail"), none) || s.Matches(in("web"), tag) {
		t.Error("the filter takes the wrong items")
	}
	hour := int64(time.Hour)
	if from, to := s.Period(3 * hour); from != hour || to != 2*hour {
		t.Errorf("period (%d, %d]", from, to)
	}
	if f, ok := s.Reduce([]float64{1, 3, 2}); f != 3 || !ok {
		t.Errorf("max = %v, %t", f, ok)
	}
	if _, ok := s.Reduce(nil); ok {
		t.Error("an item without values has a value")
	}
}

// TestFormula evaluates formulas of calculated items on one node, and expects their results.
func TestFormula(t *testing.T) {
	items := []model.Item{{Key: "total"}, {Key: "used"}}
	p, err := CompileFormula(items, "100*last(//used)/last(//total)", nil)
	if err != nil {
		t.Fatal(err)
	}
	w := p.NewWindows(start)
	p.Add(w, 0, item.Sample{At: start, Value: item.FromFloat(8)})
	if _, err := p.Value(w, start); err == nil {
		t.Error("a formula has a value before all its items have one")
	}
	p.Add(w, 1, item.Sample{At: start, Value: item.FromFloat(2)})
	if v, err := p.Value(w, start); err != nil || v.Float() != 25 {
		t.Errorf("value %v, %v", v, err)
	}
}
