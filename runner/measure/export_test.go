package measure

// WithFlags makes Open start the program with further flags.
func (o OpenOptions) WithFlags(flags ...string) OpenOptions {
	o.flags = flags
	return o
}
