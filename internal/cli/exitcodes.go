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
	{model.Internal, "a fault of ours, or one that fits no other line"},
	{model.Invalid, "the input is wrong: the message says where and what is right"},
	{model.NotFound, "there is no such thing"},
	{model.Conflict, "it exists already, or somebody changed it meanwhile"},
	{model.Unauthenticated, "not logged in, or the token is not valid any more"},
	{model.Forbidden, "you may not do this"},
	{model.Limited, "a limit says no"},
	{model.TooLarge, "too much in one request"},
	{model.Unavailable, "not now: no server there, starting, stopping or its disk is full"},
	{model.Guarded, "refused until you confirm: look at the message, then --yes"},
	{model.Stale, "somebody changed it since you read it: read it again"},
	{model.Unsupported, "this version cannot do it: the message says what it waits for"},
}

func exitCodesTopic() *cobra.Command {
	var b strings.Builder
	b.WriteString("Exit codes, the same for every command:\n\n    0  done\n")
	for _, m := range classMeanings {
		fmt.Fprintf(&b, "  %3d  %s (%s)\n", m.class.Exit(), m.meaning, m.class.Label())
	}
	b.WriteString("  130  interrupted by Ctrl-C\n\nWith --exit-code muster diff and muster plan end with 20 when something would change, muster\nstatus with 20 when it is nearly well and with 21 when it is not well; muster doctor with 9\nwhen something does not work; muster agent --probe with the probe's status, 0 to 3;\nmuster run with 20 when a run ended with another status than OK, and with 21 when on a node\nnothing ran or the end was not heard; muster load run with 20 when an objective was missed, with 21\nwhen something was lost, came twice or an alert was wrong, with 7 when the generator fell behind, and\nwith 22 when Ctrl-C ended it early and nothing was wrong until then (130: there is no report);\nmuster import sensu --strict with 20 when something was not carried;\nmuster load compare and muster load check with 20 when a figure is worse, and with 21 as muster load run.\n")
	return &cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: b.String()}
}
