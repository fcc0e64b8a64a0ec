"""Which factor brings how much, and what two of them do only together."""
