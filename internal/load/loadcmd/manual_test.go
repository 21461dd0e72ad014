package loadcmd

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestCommandsOfTheManual expects that each command on the pages of load tests exists, with its flags and scenarios.
func TestCommandsOfTheManual(t *testing.T) {
	command := regexp.MustCompile("muster load ([a-z][^`#|>&;\n…]*)")
	name := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9.]+)+$`)
	found := 0
	for _, page := range []string{"docs/load.md", "docs/load-reference.md", "docs/sizing.md", "bench/README.md", "bench/results/README.md"} {
		text, err := os.ReadFile(filepath.Join("../../..", page))
		testenv.NoError(t, err)
		for _, line := range command.FindAllStringSubmatch(string(text), -1) {
			words := strings.Fields(regexp.MustCompile(`'[^']*'`).ReplaceAllString(line[1], "a:b"))
			root := &cobra.Command{Use: "muster"}
			root.PersistentFlags().String("server", "", "")
			root.AddCommand(NewCommand())
			cmd, rest, err := root.Find(append([]string{"load"}, words...))
			if err == nil {
				err = cmd.ParseFlags(rest)
			}
			if err != nil || cmd.HasSubCommands() {
				t.Errorf("%s: muster load %s: %v", page, line[1], err)
				continue
			}
			found++
			for _, arg := range cmd.Flags().Args() {
				if _, err := scenario.Load(arg); name.MatchString(arg) && filepath.Ext(arg) != ".yaml" && err != nil {
					t.Errorf("%s: muster load %s: %v", page, line[1], err)
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("%d commands", found)
	}
}

// TestKeptResultsCanBeMeasuredAgain expects a shipped scenario for each kept report.
func TestKeptResultsCanBeMeasuredAgain(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(results, "*.json"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		if strings.HasPrefix(name, "sizing-") {
			name = "muster-sizing"
		}
		if _, err := scenario.Load(name); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestStagesHaveBenchmarks expects that each benchmark of a stage exists.
func TestStagesHaveBenchmarks(t *testing.T) {
	text, err := os.ReadFile("../../../bench/stages.sh")
	testenv.NoError(t, err)
	stages := regexp.MustCompile(`(?m)^(?:BENCHTIME=\w+ )?bench (\S+) '([^']+)'`).FindAllStringSubmatch(string(text), -1)
	if len(stages) < 10 {
		t.Fatalf("%d stages", len(stages))
	}
	for _, stage := range stages {
		files, err := filepath.Glob(filepath.Join("../../..", stage[1], "*_test.go"))
		testenv.NoError(t, err)
		var tests []byte
		for _, file := range files {
			source, err := os.ReadFile(file)
			testenv.NoError(t, err)
			tests = append(tests, source...)
		}
		for pattern := range strings.SplitSeq(stage[2], "|") {
			pattern, _, _ = strings.Cut(strings.ReplaceAll(pattern, "$", `\b`), "/")
			if !regexp.MustCompile(`(?m)^func Benchmark\w*` + pattern).Match(tests) {
				t.Errorf("no benchmark of %s is called %s", stage[1], pattern)
			}
		}
	}
}
