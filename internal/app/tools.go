package app

import (
	"io"

	"github.com/muster-fleet/muster/internal/agent/facts"
	"github.com/muster-fleet/muster/internal/store/asset"
	"github.com/muster-fleet/muster/internal/tools"
)

// openTools opens the Assets of the server's own commands. Its folder holds only files extracted from
// archives: a copy of the data folder needs none of it.
func (s *Server) openTools() (*tools.Box, error) {
	return tools.Open(tools.Options{
		Dir: s.path("tools"), Facts: facts.New(facts.This()).Measure(), Log: s.log,
		Came: func() {
			if s.reactor != nil { // nothing is sent before it is there
				s.reactor.AssetArrived()
			}
		},
		Archive: func(sum [64]byte) (io.ReadSeekCloser, error) { return s.archives.OpenChecked(asset.Sum(sum)) },
	})
}
