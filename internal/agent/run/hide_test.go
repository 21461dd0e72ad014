package run

import (
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// What is cut away, kept and heard live is so of what was hidden before.
func TestOutputHidesBeforeItCuts(t *testing.T) {
	const secret = "correct horse battery staple"
	var heard strings.Builder
	r := &Runner{}
	result := r.Run(t.Context(), Command{
		Shell: `i=0; while [ $i -lt 40 ]; do printf 'x%s' "$S"; i=$((i+1)); done; exit 1`, Env: map[string]string{"S": secret}, Hide: []string{secret},
		MaxOutput: 200, Stream: func(p []byte) { heard.Write(p) },
	})
	for _, text := range []string{string(result.Output), heard.String(), result.Note} {
		if strings.Contains(text, "corr") {
			t.Errorf("left: %q", text)
		}
	}
	if !strings.HasPrefix(string(result.Output), "x(hidden)x(hidden)") || result.Cut == 0 || result.Status != model.Warning {
		t.Errorf("got %+v\n%s", result, result.Output)
	}
	all := r.Run(t.Context(), Command{Shell: `printf 'begins %s' correct; exit 0`, Hide: []string{secret}})
	if string(all.Output) != "begins correct" || all.Cut != 0 {
		t.Errorf("what was held back is lost: %+v %s", all, all.Output)
	}
}
