package scenario

import (
	"cmp"
	_ "embed" // texts of plug-ins
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/muster-fleet/muster/internal/model"
)

// Digits is the output of no plug-in: a sentence, and random digits up to the length.
const Digits = "digits"

//go:embed plugins.txt
var pluginTexts string

// plugins returns outputs of real plug-ins, by their names; # is any digit. OK first, then WARNING, CRITICAL and UNKNOWN.
var plugins = sync.OnceValue(func() map[string][]string {
	outputs := map[string][]string{}
	for block := range strings.SplitSeq(strings.TrimSpace(pluginTexts), "\n\n") {
		lines := strings.Split(block, "\n")
		outputs[lines[0]] = lines[1:]
	}
	return outputs
})

// Outputs returns the names of Output.Like.
func Outputs() []string {
	return append([]string{Digits}, slices.Sorted(maps.Keys(plugins()))...)
}

// Words returns the output of the plug-in for a status; # stands for any digit; empty for Digits.
func Words(like string, status model.Status) string {
	if texts := plugins()[like]; texts != nil {
		return texts[status&3]
	}
	return ""
}

// Length returns the approximate length of the outputs, in bytes.
func (o Output) Length() int {
	return cmp.Or(int(o.Bytes), len(Words(cmp.Or(o.Like, Digits), model.OK)), 100)
}
