package app

import (
	"context"

	"github.com/prometheus/prometheus/storage"

	"github.com/muster-fleet/muster/internal/api/view"
	"github.com/muster-fleet/muster/internal/directory"
	"github.com/muster-fleet/muster/internal/rules"
)

// openRules returns a function that opens the engine of recording and alerting rules.
func openRules(s *Server) func(context.Context) error {
	return func(context.Context) error {
		s.rules = rules.New(rules.Options{
			Series: func(namespace string) storage.Queryable { return view.SeriesIn(s.series, namespace) },
			Groups: func() []*directory.Unit { return directory.UnitsOf(s.directory, directory.RuleGroupKind) }, Directory: s.directory, Events: s.view.List, Intent: s.intent, CatchUp: s.planner.CatchUp,
			RecordSamples: s.recorder.RecordAndApply, RecordVerdicts: s.recorder.RecordVerdicts, Now: s.now, Log: s.log, Registerer: s.registry,
		})
		s.registerTask(back, "rules", s.rules.Run)
		return nil
	}
}
