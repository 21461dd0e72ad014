package loadcmd

import (
	"fmt"
	"io"

	"github.com/muster-fleet/muster/internal/load"
)

// progress prints a line every five seconds.
func progress(w io.Writer) func(load.Sample) {
	return func(s load.Sample) {
		if s.Second%5 == 0 {
			fmt.Fprintf(w, "%4d s  %7d sent/s  %7d acknowledged/s  %6d connected  server %.2f cores %5d MiB  loader %.2f cores\n",
				s.Second, s.Sent, s.Acked, s.Connected, s.ServerCPU, s.ServerRSS>>20, s.LoaderCPU)
		}
	}
}
