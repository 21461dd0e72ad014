package measure

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

func TestThresholdsRaiseTheStatus(t *testing.T) {
	number := func(v float64) *float64 { return &v }
	values := []model.Value{
		{Name: "used", Tags: map[string]string{"mount": "/"}, Value: 85},
		{Name: "used", Tags: map[string]string{"mount": "/var"}, Value: 95},
		{Name: "free", Value: 0},
	}
	most := func(n float64) *model.Bounds { return &model.Bounds{Max: number(n)} }
	for name, c := range map[string]struct {
		status model.Status
		t      model.Threshold
		want   model.Status
		line   string // empty: none
	}{
		"within":              {model.OK, model.Threshold{Metric: "used", Warning: most(95)}, model.OK, ""},
		"one of several":      {model.OK, model.Threshold{Metric: "used", Warning: most(90)}, model.Warning, "WARNING: used{mount=/var} is 95, more than 90"},
		"the worst counts":    {model.OK, model.Threshold{Metric: "used", Warning: most(80), Critical: most(90)}, model.Critical, "CRITICAL: used{mount=/var} is 95, more than 90"},
		"by tag":              {model.OK, model.Threshold{Metric: "used", Tags: map[string]string{"mount": "/"}, Warning: most(80), Critical: most(90)}, model.Warning, "WARNING: used{mount=/} is 85"},
		"too small":           {model.OK, model.Threshold{Metric: "free", Critical: &model.Bounds{Min: number(1)}}, model.Critical, "CRITICAL: free is 0, less than 1"},
		"a bound of zero":     {model.OK, model.Threshold{Metric: "free", Critical: &model.Bounds{Min: number(0), Max: number(0)}}, model.OK, ""},
		"never lowers":        {model.Critical, model.Threshold{Metric: "used", Warning: most(80)}, model.Critical, "WARNING: used{mount=/} is 85"},
		"unknown is less":     {model.Critical, model.Threshold{Metric: "used", Unknown: most(80)}, model.Critical, "UNKNOWN: used"},
		"unknown is more":     {model.Warning, model.Threshold{Metric: "used", Unknown: most(80)}, model.Unknown, "UNKNOWN: used"},
		"missing":             {model.OK, model.Threshold{Metric: "swap", Missing: "critical"}, model.Critical, "CRITICAL: there is no swap in the output"},
		"missing by its tag":  {model.OK, model.Threshold{Metric: "used", Tags: map[string]string{"mount": "/home"}, Missing: "unknown"}, model.Unknown, "there is no used{mount=/home}"},
		"missing and fine":    {model.OK, model.Threshold{Metric: "swap", Critical: most(1)}, model.OK, ""},
		"there, not missing ": {model.OK, model.Threshold{Metric: "free", Missing: "critical"}, model.OK, ""},
	} {
		status, lines := Judge(c.status, values, []model.Threshold{c.t})
		text := strings.Join(lines, "\n")
		if status != c.want || c.line == "" && text != "" || !strings.HasPrefix(text, c.line) && !strings.Contains(text, c.line) {
			t.Errorf("%s: %s %q, want %s %q", name, status, text, c.want, c.line)
		}
	}
}
