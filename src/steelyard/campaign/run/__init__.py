"""Taking the blocks of a campaign, from the first start to the last journal entry."""
