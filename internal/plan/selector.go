package plan

type Selector struct{}

// ParseSelector reads the selector of -l.
func ParseSelector(text string) (Selector, error) { panic("unfinished") }
