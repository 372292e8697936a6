package main

// moment is an event of a phone.
type moment struct {
	what  string
	phone int
}

// accident is what happens to the process that has reported an event.
type accident func(*director, event) error

// accidents are what happens during the sale, each once.
func accidents() map[moment]accident {
	return map[moment]accident{
		{pays, 2}: (*director).kill,
		{pays, 4}: (*director).freeze,
		{sold, 6}: (*director).kill,
		{pays, 8}: (*director).kill,
	}
}

// kill ends a process while it works on an order. It is started again.
func (d *director) kill(e event) error {
	d.say("process %d is killed (kill -9); it starts again, and its buyers order again", e.from.role.Number+1)
	return e.from.kill()
}

// freeze stops a process while a buyer pays. It learns of the payment when it
// goes on.
func (d *director) freeze(e event) error {
	d.say("process %d freezes", e.from.role.Number+1)
	d.frozen = &e
	return e.from.freeze()
}

// thaw lets a frozen process go on when others have done its order and the next
// one. What it has read of the stock is no longer true.
func (d *director) thaw(e event) error {
	if d.frozen == nil || e.What != sold || e.Phone <= d.frozen.Phone {
		return nil
	}
	p := d.frozen.from
	d.frozen = nil
	d.say("process %d goes on, with an order that is no longer its own", p.role.Number+1)
	if err := p.thaw(); err != nil {
		return err
	}
	p.answer()
	return nil
}
