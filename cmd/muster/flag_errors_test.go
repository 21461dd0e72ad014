//go:build linux && !noserver

package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/cli"
	"github.com/muster-fleet/muster/internal/model"
)

// TestFlagErrors names the accepted values and an example for a wrong flag or argument.
func TestFlagErrors(t *testing.T) {
	for line, want := range map[string]string{
		"load size muster-sizing --factors a,b": `--factors: "a,b" is no list of numbers with commas between them, such as 1,2,4`,
		"load size muster-sizing --seconds 1h":  `--seconds: "1h" is no whole number, such as 30`,
		"load size muster-sizing --factors":     "--factors needs a value, such as 1,2,4",
		"load run muster-sizing --max-lag 5":    `--max-lag: "5" is no time with its unit, such as 50ms`,
		"load run muster-sizing --scale x":      `--scale: "x" is no number, such as 0.5`,
		"load run muster-sizing --seed -1":      `--seed: "-1" is no whole number from 0 on, such as 1`,
		"load run muster-sizing --quick=maybe":  `--quick: "maybe" is neither true nor false`,
		"load run muster-sizing --out":          "--out needs a value\n",
		"load run muster-sizing --goal p98=1ms": "--goal \"p98=1ms\": there is no figure \"p98\"\n  did you mean p99? want NAME=LIMIT, such as --goal p99=800ms",
		"load run --server x:1 --interval 5":    `--interval: "5" is no time with its unit, such as 5s`,
		"load compare old/run.json":             "a comparison needs two runs or more, the base first, and has 1\n  such as muster load compare old/ new/",
		"load compare --interleave":             "--interleave plays one scenario, and has 0\n  muster load compare --interleave muster-mixed",
		"load compare old/ new/ -o text":        `--output: "text" is none of table, wide, markdown, json, yaml`,
		"load from-fleet --classes few":         `--classes: "few" is no whole number, such as 8`,
		"load report":                           "RUN.json|FOLDER is missing\n",
		"get events --limit many":               `--limit: "many" is no whole number, such as 50`,
	} {
		var out, errs bytes.Buffer
		env := &cli.Env{Args: strings.Fields(line), Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Getenv: func(string) string { return "" }, Now: time.Now, Zone: time.UTC}
		if code := cli.Main(t.Context(), env, extras()...); code != model.Invalid.Exit() || !strings.HasPrefix(errs.String(), "muster: "+want) {
			t.Errorf("%s: code %d, want %q in\n%s%s", line, code, want, out.String(), errs.String())
		}
	}
}
