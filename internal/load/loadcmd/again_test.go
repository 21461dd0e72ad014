package loadcmd

import (
	"slices"
	"testing"

	"github.com/spf13/cobra"
)

// What plays a run again has the flags that say against what and how, and none that makes the
// scenario, which is as large as it was played, smaller once more, or that names its report.
func TestAgain(t *testing.T) {
	for _, c := range []struct {
		typed, want []string
	}{
		{nil, nil},
		{[]string{"--quick", "--scale", "0.1", "--seed", "7", "--out", "there", "--target=sensu"}, nil},
		{[]string{"--goal", "p99=60ms", "--max-lag", "1s", "--goal=rate=1", "--server-flag", "--x=1", "--server-binary", "bin/old", "--server-flag=-y"},
			[]string{"--goal=p99=60ms", "--goal=rate=1", "--max-lag=1s", "--server-binary=bin/old", "--server-flag=--x=1", "--server-flag=-y"}},
		{[]string{"--server", "x:1", "--context-file", "mine", "--namespace", "web"}, []string{"--context-file=mine", "--server=x:1"}},
	} {
		o, cmd := &options{}, &cobra.Command{}
		o.flagsOf(cmd.Flags())
		cmd.Flags().String("context-file", "", "")
		cmd.Flags().String("namespace", "", "")
		if err := cmd.ParseFlags(c.typed); err != nil {
			t.Fatal(err)
		}
		if got := o.playedWith(cmd); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.typed, got, c.want)
		}
	}
	turns := &interleave{}
	cmd := &cobra.Command{}
	turns.add(cmd.Flags())
	if err := cmd.ParseFlags([]string{"--interleave", "--a", "old: bin/old", "--runs", "9", "--quick", "--max-lag", "2s"}); err != nil {
		t.Fatal(err)
	}
	leg := turns.options
	leg.binary, leg.flags = "/bin/old", []string{"--x"}
	if got := leg.playedWith(cmd); !slices.Equal(got, []string{"--max-lag=2s", "--server-binary=/bin/old", "--server-flag=--x"}) {
		t.Errorf("a leg: %q", got)
	}
}
