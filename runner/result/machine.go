package result

// EngineGPUs are the devices that the engine used. Where that is not known they are those that it may have used, and
// known is false. Empty = it used none, or there is none.
func (m *Machine) EngineGPUs() (gpus []GPUUse, known bool) {
	var maybe []GPUUse
	for _, g := range m.GPUs {
		switch {
		case g.Used == nil:
			maybe = append(maybe, g)
		case *g.Used:
			gpus = append(gpus, g)
		}
	}
	if len(gpus) > 0 || len(maybe) == 0 {
		return gpus, true
	}
	return maybe, false
}

// smClock is the slowest device's median.
func (m *Machine) smClock() *float64 {
	return m.fold(func(g GPUUse) *float64 {
		if g.SMClock == nil {
			return nil
		}
		return &g.SMClock.Median
	}, func(a, b float64) float64 { return min(a, b) })
}

func (m *Machine) powerW() *float64 {
	return m.fold(func(g GPUUse) *float64 { return g.PowerW }, func(a, b float64) float64 { return a + b })
}

func (m *Machine) temperature() *float64 {
	return m.fold(func(g GPUUse) *float64 { return g.Temperature }, func(a, b float64) float64 { return max(a, b) })
}

func (m *Machine) tokensPerJoule() *float64 {
	if m.JoulesPerToken == nil || *m.JoulesPerToken <= 0 {
		return nil
	}
	v := 1 / *m.JoulesPerToken
	return &v
}

// fold puts one value of the engine's devices together; nil when one of them has none, or when it is not known which
// they are.
func (m *Machine) fold(value func(GPUUse) *float64, join func(a, b float64) float64) *float64 {
	gpus, known := m.EngineGPUs()
	if !known {
		return nil
	}
	var out *float64
	for _, g := range gpus {
		v := value(g)
		if v == nil {
			return nil
		}
		x := *v
		if out != nil {
			x = join(*out, x)
		}
		out = &x
	}
	return out
}
