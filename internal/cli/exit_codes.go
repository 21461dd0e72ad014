package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/muster-fleet/muster/internal/model"
)

var classMeanings = [...]struct {
	class   model.Class
	meaning string
}{
	{model.Internal, "a fault of Muster, or an error of no other class"},
	{model.Invalid, "the input is wrong: the message tells where, and what is right"},
	{model.NotFound, "there is no such object"},
	{model.Conflict, "the object exists already, or changed meanwhile"},
	{model.Unauthenticated, "not logged in, or the token is not valid any more"},
	{model.Forbidden, "your role does not permit it"},
	{model.Limited, "a limit is reached"},
	{model.TooLarge, "too much in one request"},
	{model.Unavailable, "not now: the server is down, starting, stopping, or its disk is full"},
	{model.Guarded, "refused until you confirm: read the message, then --yes"},
	{model.Stale, "the object changed since you read it: read it again"},
	{model.Unsupported, "this version cannot do it: the message names the reason"},
}

func exitCodesTopic() *cobra.Command {
	var b strings.Builder
	b.WriteString("Exit codes, the same for every command:\n\n    0  done\n")
	for _, m := range classMeanings {
		fmt.Fprintf(&b, "  %3d  %s (%s)\n", m.class.Exit(), m.meaning, m.class.Label())
	}
	b.WriteString(`  130  interrupted by Ctrl-C

Codes of single commands:

  muster diff, muster plan --exit-code   20 if something would change
  muster status --exit-code              20 nearly well, 21 not well
  muster doctor                          9 if something does not work
  muster run                             20 a run was not OK, 21 a run did not start or its end is unknown
  muster handler test                    9 would be tried again, 2 would be given up
  muster import sensu --strict           20 if something was not carried over
  muster agent --probe                   0 to 3, the status of the probe
  muster load run                        20 objective missed, 21 loss, duplicate or wrong alert,
                                         22 ended early by Ctrl-C without a fault, 7 the generator fell behind
  muster load compare, muster load check 20 a figure is worse, 21 as muster load run
`)
	return &cobra.Command{Use: "exit-codes", Short: "Exit codes and their meaning", Long: b.String()}
}
