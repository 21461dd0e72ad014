package loadcmd

import (
	"os"

	"github.com/spf13/pflag"

	"github.com/muster-fleet/muster/internal/model"
)

// overwrite is the flag of commands that write one file which somebody may have worked on since.
type overwrite struct{ yes bool }

func (o *overwrite) add(f *pflag.FlagSet) {
	f.BoolVar(&o.yes, "yes", false, "write over the file of --out, where there is one")
}

// mayWrite refuses a file that is there, unless that was asked for: before anything is read, which may
// take long.
func (o *overwrite) mayWrite(path string) error {
	if info, err := os.Stat(path); o.yes || err != nil || !info.Mode().IsRegular() {
		return nil
	}
	return model.Errorf(model.Guarded, "%s is there already, and would be written over", path).WithHint("name another file with -o, or add --yes")
}
