package loadcmd

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// playedWith are the flags with which muster load run plays a run's scenario once more, from a file
// that has it as it was played. They say against what and how; what is in that file, or names
// what is there already, is left out. Whichever command it was that played.
func (o *options) playedWith(cmd *cobra.Command) (words []string) {
	known := pflag.NewFlagSet("", pflag.ContinueOnError)
	var run options
	run.flagsOf(known)
	left := []string{"quick", "scale", "seed", "target", "out", "server-binary", "server-flag"}
	add := func(name, value string) { words = append(words, "--"+name+"="+value) }
	cmd.Flags().Visit(func(f *pflag.Flag) {
		everywhere := f.Name == "ca" || f.Name == "context-file"
		if slices.Contains(left, f.Name) || known.Lookup(f.Name) == nil && !everywhere {
			return
		}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			for _, v := range list.GetSlice() {
				add(f.Name, v)
			}
			return
		}
		add(f.Name, f.Value.String())
	})
	if o.binary != "" {
		add("server-binary", o.binary)
	}
	for _, word := range o.flags {
		add("server-flag", word)
	}
	return words
}
